#!/bin/sh
# What lies around a run: its folder, removed or moved while the run goes on, and made again by another; limits of
# memory.
#     folder.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

text 1500 > text.txt
tiny='data=text.txt width=32 head_size=16 layers=1 block=16 batch=2 eval_batches=2'

# Starts a run in folder $1 and waits for its first checkpoint; process and log are its.
begin() {
    # shellcheck disable=SC2086
    "$scion" train shakespeare $tiny steps=1000000 save_every=20 out="$1" > log 2>&1 &
    process=$!
    tries=0
    while ! ls "$1"/step-* > /dev/null 2>&1 && [ $tries -lt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
}

# The run of another, from beginning to end.
other() {
    # shellcheck disable=SC2086
    "$scion" train shakespeare $tiny steps=10 save_every=5 out="$1" > second 2>&1 || fault "the other run: $(cat second)"
    cksum "$1"/* > want
}

check_other() {
    cksum "$1"/* > got
    cmp -s want got || fault "the folder of another run was touched: $(diff want got)"
}

# ---- Removed: the first run fails at its next save
begin removed
kill -STOP $process
rm -r removed
other removed
kill -CONT $process
wait $process
status=$?
[ $status -eq 1 ] || fault "a folder that was removed: exit status $status"
grep -q 'the folder of this run was removed or replaced' log || fault "a folder that was removed: $(cat log)"
check_other removed

# ---- Moved: it goes on where the folder is now, and says so
begin here
kill -STOP $process
mv here there
other here
kill -CONT $process
kill -INT $process
wait $process
status=$?
[ $status -eq 130 ] || fault "a folder that was moved: exit status $status"
holds log 'the folder of this run was moved from here to '
holds log "scion resume $(pwd -P)/there"
check_other here
"$scion" resume there max_minutes=0.0001 > log 2>&1 || fault "a folder that was moved: $(cat log)"

# ---- A run that a limit of memory leaves no room for is refused, and the limit named
large='data=text.txt width=512 head_size=64 layers=4 block=64 batch=8 steps=1 threads=1'
for limit in v d; do
    # a sanitized program reserves terabytes of addresses and cannot even say its version
    (ulimit -$limit 200000 2> /dev/null && "$scion" version) > log 2>&1 || { grep -q AddressSanitizer log && continue; }
    # shellcheck disable=SC2086
    (ulimit -$limit 200000 2> /dev/null || exit 3; exec "$scion" train shakespeare $large out=limited) > log 2>&1
    status=$?
    [ $status -eq 3 ] && continue # no such limit here
    [ $status -eq 1 ] || fault "ulimit -$limit: exit status $status: $(cat log)"
    holds log "ulimit -$limit leaves "
    needed=$(sed -n 's/.*optimizer \([0-9.]* MB\), activations.*/\1/p' log)
done
if [ -n "${needed:-}" ]; then # with the optimizer's workspace, which is that of one matrix with one thread
    # shellcheck disable=SC2086
    "$scion" train shakespeare $large out=unlimited > log 2>&1 || fault "without a limit: $(cat log)"
    holds log "optimizer $needed,"
fi
[ -e limited ] && fault 'a run that is refused made its folder'
[ $faults -eq 0 ]
