#!/bin/sh
# Runs that are stopped: by Ctrl-C, SIGTERM and kill -9 at random moments. Whatever happened, the last checkpoint is
# whole, the run is resumed, and it ends with the tensors of a run that was never stopped.
#     stop.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
echo "SCION_TEST_SEED=$seed"

text 1500 > text.txt
steps=300
# train FOLDER: with every option that leaves something in it; takes the place of the (sub)shell.
train() {
    exec "$scion" train shakespeare data=text.txt width=32 head_size=16 layers=2 block=32 batch=8 light=1 steps=$steps \
        log_every=7 eval_every=50 norm_every=50 save_every=5 eval_batches=2 out="$1"
}

# The tensors of a checkpoint: everything after the header, whose length its first 8 bytes are.
tensors() {
    header=$(od -An -t u4 -N 4 "$1" | tr -d ' ')
    tail -c +"$((header + 9))" "$1"
}
last=step-$(printf %08d $steps).safetensors

# The lines of logging, validation and norms as in the run that never stopped: the same steps, each once.
check_end() { # NAME FOLDER
    [ -s "$2/$last" ] || { fault "$1: no last checkpoint in $(ls "$2")"; return; }
    tensors "$2/$last" > got
    cmp -s want got || fault "$1: other tensors"
    logged='[line["step"] for line in o if "loss" in line]'
    json whole/metrics.jsonl "$logged" > a
    json "$2/metrics.jsonl" "$logged" > b
    cmp -s a b || fault "$1: other steps are logged: $(tr '\n' ' ' < b)"
    for kind in val_loss name; do
        json whole/metrics.jsonl "sum('$kind' in line for line in o)" > a
        json "$2/metrics.jsonl" "sum('$kind' in line for line in o)" > b
        cmp -s a b || fault "$1: $(cat b) lines with $kind, expected $(cat a)"
    done
    ls "$2" | grep -q tmp && fault "$1: temporary files are left: $(ls "$2")"
    [ "$(json "$2/summary.json" 'o["steps"]')" -eq "$steps" ] || fault "$1: summary.json"
}

(train whole) > log 2>&1 || { cat log; fault "the run that is never stopped: $?"; exit 1; }
tensors whole/$last > want

# Empties the log before a program starts in the background, which does so itself only when it runs: a line of the
# program before it is not taken for its own.
fresh() {
    : > log
}

# Ends process $1 by signal $2 as soon as folder $3 has step $4.
stop_at() {
    tries=0
    while ! ls "$3"/step-*"$4".safetensors > /dev/null 2>&1 && [ $tries -lt 6000 ] && kill -0 "$1" 2> /dev/null; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -"$2" "$1" 2> /dev/null
}

# ---- Asked to stop
hup=HUP
case $(sed -n 's/^SigIgn:.*\(.\)$/\1/p' /proc/self/status) in *[13579bdf]) hup= ;; esac # ignored, as under nohup
for signal in INT TERM $hup; do
    case $signal in INT) expected=130 ;; TERM) expected=143 ;; HUP) expected=129 ;; esac
    (train $signal) > log 2>&1 &
    process=$!
    stop_at $process $signal $signal 5
    # A closed terminal sends SIGHUP twice; any number is fine, as it is for SIGTERM.
    for again in 1 2 3; do [ $signal = INT ] || kill -$signal $process 2> /dev/null; done
    wait $process
    status=$?
    [ $status -eq $expected ] || fault "SIG$signal: exit status $status"
    grep -q "scion resume $signal" log || fault "SIG$signal: does not say how to resume: $(tail -n 3 log)"
    [ -e $signal/$last ] && fault "SIG$signal: the run ended before it was stopped"
    "$scion" resume $signal > log 2>&1 || fault "SIG$signal: resume: $(cat log)"
    check_end SIG$signal $signal
done

# ---- A long validation: it is shown in a terminal, the time left includes it, and Ctrl-C ends it with the run saved
text 60000 > long.txt
cat > long.sh << END
echo \$\$ > process
exec "$scion" train shakespeare data=long.txt val_fraction=0.9 width=128 head_size=32 layers=4 block=64 batch=8 \
    steps=2 out=long
END
fresh
script -qec 'env TERM=xterm sh long.sh' /dev/null > log 2>&1 < /dev/null &
tries=0
while ! grep -q 'step 2/2  validating [0-9]* %' log && [ $tries -lt 600 ]; do sleep 0.05; tries=$((tries + 1)); done
[ $tries -lt 600 ] || fault "a long validation is not shown: $(tail -c 300 log)"
[ -s long/step-00000002.safetensors ] || fault 'a long validation: the run is not saved before it'
kill -INT "$(cat process)"
wait $!
grep -q 'scion resume long' log || fault "Ctrl-C in a validation: $(tail -n 3 log)"
grep -q 'validation: measures 262144 of 1717952 tokens, spread' log || fault "a large validation is not told of: $(head -n 60 log)"
grep 'step 2/2  loss' log | grep -q ' 0\.0s left' && fault "the time left leaves out the validation: $(cat log)"

# ---- Out of time is a success
"$scion" train shakespeare data=text.txt width=32 head_size=16 layers=2 block=32 batch=8 steps=1000000 max_minutes=0.01 \
    eval_batches=2 out=minutes > log 2>&1 || fault "max_minutes: exit status $?"
grep -q 'scion resume minutes' log || fault "max_minutes: $(tail -n 3 log)"

# ---- In a step of many micro-batches: it is left at once; with light the next process goes on in it
fresh
"$scion" train shakespeare data=text.txt width=32 head_size=16 layers=2 block=32 batch=8 steps=1000 light=1 accum=1M \
    out=within > log 2>&1 &
process=$!
tries=0
while ! grep -q '^run: ' log && [ $tries -lt 6000 ]; do sleep 0.02; tries=$((tries + 1)); done
sleep 0.3
kill -INT $process
wait $process
status=$?
[ $status -eq 130 ] || fault "SIGINT in a step: exit status $status"
grep -aq '"micro": *"[1-9]' within/step-00000000.safetensors || fault "SIGINT in a step: it is not gone on with"
"$scion" resume within max_minutes=0.005 > log 2>&1 || fault "SIGINT in a step: resume: $(cat log)"
grep -q 'scion resume within' log || fault "max_minutes in a step: $(cat log)"

# ---- A second Ctrl-C, while the first waits for a micro-batch to end, ends the program at once
# (which takes a single thread many times as long as the two signals).
fresh
"$scion" train shakespeare data=text.txt width=512 head_size=64 layers=4 block=128 batch=64 steps=1000 threads=1 \
    out=twice > log 2>&1 &
process=$!
tries=0
while ! grep -q '^run: ' log && [ $tries -lt 6000 ]; do sleep 0.02; tries=$((tries + 1)); done
sleep 0.1
kill -INT $process
# Two that wait at the same time are one: the second comes when the first was taken.
while grep -Eq '^(Shd|Sig)Pnd:.*[1-9a-f]' /proc/$process/status; do sleep 0.01; done 2> /dev/null
kill -INT $process
wait $process
status=$?
[ $status -eq 130 ] || fault "two SIGINT: exit status $status"
[ -e twice/summary.json ] && fault 'two SIGINT: the run was saved'

# ---- The reader of the log goes away: the run goes on
{ (train read); echo $? > status; } 2>&1 | head -n 12 > log
[ "$(cat status)" -eq 0 ] || fault "a log without a reader: exit status $(cat status)"
check_end 'a log without a reader' read
"$scion" presets > /dev/full 2> log && fault 'presets to a full disk: exit status 0'

# ---- Two at once: the second is kept out of the folder
(train killed) > log 2>&1 &
process=$!
stop_at $process STOP killed 5
"$scion" resume killed > second 2>&1 && fault 'a second process in the same folder should be refused'
grep -q 'another process is training' second || fault "a second process: $(cat second)"

# ---- Killed, many times
kill -KILL $process
wait $process 2> /dev/null
for round in 1 2 3 4 5 6; do
    "$scion" resume killed > log 2>&1 &
    process=$!
    draw 30
    sleep 0.$(printf %02d $drawn)
    kill -KILL $process 2> /dev/null
    wait $process 2> /dev/null
    "$scion" eval killed eval_batches=1 > log 2>&1 || fault "killed, round $round: $(cat log)"
done
"$scion" resume killed > log 2>&1 || fault "killed: resume: $(cat log)"
check_end 'kill -9' killed

# ---- From an earlier checkpoint; when there is nothing left to do; elsewhere
before=$(ls killed/step-*.safetensors | head -n 1)
"$scion" resume "$before" > log 2>&1 || fault "earlier checkpoint: $(cat log)"
grep -q 'set aside' log || fault "earlier checkpoint: $(cat log)"
check_end 'earlier checkpoint' killed
"$scion" resume killed > log 2>&1 || fault "nothing left: $(cat log)"
grep -q 'already complete' log || fault "nothing left: $(cat log)"
check_end 'nothing left' killed
"$scion" resume "$(ls killed/step-*.safetensors | head -n 1)" out=branch > log 2>&1 || fault "branch: $(cat log)"
tensors branch/$last > got
cmp -s want got || fault 'branch: other tensors'
"$scion" resume killed out=branch > log 2>&1 && fault 'resume into a run should fail'
grep -q 'already holds a run' log || fault "resume into a run: $(cat log)"
"$scion" resume killed steps=10 > log 2>&1 && fault 'resume with fewer steps should fail'
[ $faults -eq 0 ]
