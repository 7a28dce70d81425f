#!/bin/sh
# scion tune from beginning to end on a tiny model: the file that it writes trains, a second time does nothing new, what
# was stopped or killed is resumed to the same end, two processes share the work, wrong input gets one sentence.
#     tune.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
tiny='data_kind=synthetic vocab=24 layers=1 width=32 head_size=8 block=16 batch=4 steps=12 eval_batches=1'
# tune FILE LEDGER ARGUMENT...
tune() {
    file=$1 ledger=$2
    shift 2
    exec "$scion" tune shakespeare $tiny proxy=16 candidates=6 rungs=2 jobs=2 out="$file" ledger="$ledger" "$@"
}
# FILE: the values found, without times and the command.
found() {
    grep -v -e 'seconds of training' -e 'scion tune shakespeare' "$1"
}

# ---- From beginning to end
(tune whole.ini whole.db) > out 2>&1 || { cat out; fault "tune: $?"; exit 1; }
tr -s ' \n' ' ' < out > one_line # lines are broken at 80 columns
holds one_line 'tuning shakespeare at width 16 for width 32: lr radius_first radius_hidden radius_last; 6 of 1125 points'
holds out 'rung 1 of 2: 6 points, 0 diverged, 0 failed; best '
holds out 'rung 2 of 2: '
holds out "the preset's own"
holds out 'neighbours in lr: '
holds out 'scion train whole.ini'
holds whole.ini '; shakespeare at width 32, tuned at width 16'
holds whole.ini ";   scion tune shakespeare $tiny proxy=16"
holds whole.ini '; Rung 1 of 2, 4 steps:'
holds whole.ini '; Rung 2 of 2, 12 steps:'
holds whole.ini 'lr x 1/2'
holds whole.ini 'Carried over from width 16 to 32'
holds whole.ini 'width = 32'
ls | grep -q tmp && fault "temporary files are left: $(ls)"
found whole.ini > want

# The file trains, with the values that were found.
"$scion" train whole.ini out=run steps=2 > train 2>&1 || { cat train; fault "train whole.ini: $?"; }
lr=$(sed -n 's/^; *found *lr 2^\(-*[0-9]*\).*/\1/p' whole.ini)
[ -n "$lr" ] || fault 'no lr was found'
"$scion" train shakespeare $tiny "lr=2^$lr" out=run2 steps=1 > train2 2>&1
sed -n 's/^run: .* lr \([^ ]*\) .*/\1/p' train > a
sed -n 's/^run: .* lr \([^ ]*\) .*/\1/p' train2 > b
cmp -s a b || fault "lr of whole.ini: $(cat a), expected $(cat b)"
grep '^embedding' train | grep -q '24 x 32' || fault 'the file is not for width 32'

# ---- Again: a file is not replaced unasked; nothing new is trained, and the same is found
(tune whole.ini whole.db) > out 2>&1 && fault 'an existing file should be refused'
holds out 'whole.ini exists; --force replaces it'
(tune whole.ini whole.db --force) > out 2>&1 || fault "again: $(cat out)"
holds out '0 new runs'
found whole.ini | cmp -s - want || { fault 'again: another result'; found whole.ini | diff - want; }

# ---- Stopped and killed on the way, then again to the end
for signal in INT KILL; do
    : > out # of the program before, until this one runs
    (tune $signal.ini $signal.db) > out 2>&1 &
    process=$!
    tries=0
    while ! grep -q 'rung 1 of 2: 6' out && [ $tries -lt 300 ]; do
        [ -s $signal.db ] && [ $tries -gt 15 ] && break
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -$signal $process 2> /dev/null
    wait $process 2> /dev/null
    status=$?
    if [ $signal = INT ] && ! grep -q 'scion train' out; then
        [ $status -eq 130 ] || fault "SIGINT: exit status $status"
        holds out 'repeat the command to resume'
        [ -e INT.ini ] && fault 'SIGINT: a file was written'
    fi
    (tune $signal.ini $signal.db --force) > out 2>&1 || fault "after SIG$signal: $(cat out)"
    found $signal.ini | cmp -s - want || { fault "after SIG$signal: another result"; found $signal.ini | diff - want; }
done

# ---- Two at once
(tune one.ini shared.db) > out1 2>&1 &
(tune two.ini shared.db) > out2 2>&1 || fault "second process: $(cat out2)"
wait $! || fault "first process: $(cat out1)"
found one.ini | cmp -s - want || fault 'two processes: another result in one.ini'
found two.ini | cmp -s - want || fault 'two processes: another result in two.ini'

# ---- One value, two seeds, images, and names by themselves
"$scion" tune mlp data_kind=synthetic rule=adamw boundary_init=0 width=16 proxy=8 batch=8 epochs=0 steps=6 \
    candidates=2 rungs=1 seeds=2 > out 2>&1 || fault "mlp: $(cat out)"
tr -s ' \n' ' ' < out > one_line
holds one_line 'width 8 for width 16: lr; 2 of 9 points; ledger sweeps/mlp-tune.db'
holds out 'radius_last is not searched: the rule has no radii'
holds out 'rule adamw: the best lr may differ'
holds out 'of the others cannot be distinguished from it with 2 seeds'
holds mlp-tuned.ini '; radius_first was not searched: the rule has no radii.'
[ -s sweeps/mlp-tune.db ] || fault 'no ledger in sweeps'

# ---- Durations
while read -r text seconds; do
    (tune whole.ini whole.db --force budget="$text") > out 2>&1
    status=$?
    if [ "$seconds" = wrong ]; then
        [ $status -eq 2 ] || fault "budget=$text: exit status $status, expected 2"
        holds out "scion: budget=$text: expected a time such as 90s, 20m or 1h30m"
    else
        [ $status -eq 0 ] || fault "budget=$text: exit status $status"
        holds out ", at most $seconds;"
    fi
done << END
90 1m30s
90s 1m30s
20m 20m00s
2h 2h00m
1h30m 1h30m
1h5m20s 1h05m
1m30s 1m30s
1.5h 1h30m
45.5 45.5s
1h30s 1h00m
0 wrong
0s wrong
-5m wrong
m wrong
20x wrong
1h30 wrong
30m1h wrong
1m1m wrong
1e3 wrong
soon wrong
1..5h wrong
END
(tune whole.ini whole.db --force budget=) > out 2>&1
[ $? -eq 2 ] || fault "budget= should be refused"

# A budget that is too short drops candidates and says so, or ends with what there is.
(tune short.ini short.db budget=0.05) > out 2>&1
case $? in
0) grep -q -e 'the budget was enough for' -e 'out of time' out || fault "short budget: $(cat out)" ;;
1) holds out 'out of time before one run had finished' ;;
*) fault "short budget: $(cat out)" ;;
esac

# ---- Runs of others that wait in the ledger are left alone, or removed
"$scion" sweep shakespeare $tiny lr=0.3,0.4 ledger=whole.db --add > out 2>&1 || fault "--add: $(cat out)"
(tune whole.ini whole.db --force) > out 2>&1 || fault "beside others: $(cat out)"
holds out '0 new runs'
holds out '2 runs of other settings wait in whole.db: --all runs them, --drop removes them'
found whole.ini | cmp -s - want || fault 'beside others: another result'
(tune whole.ini whole.db --force --drop) > out 2>&1 || fault "--drop: $(cat out)"
holds out '2 runs that waited were removed'
(tune whole.ini whole.db --force) > out 2>&1 || fault "after --drop: $(cat out)"
grep -q 'other settings' out && fault "--drop left something: $(cat out)"

# ---- Wrong input: one sentence and the right status
refused 2 'give a preset' tune
refused 2 '--all' tune shakespeare $tiny --all --drop
refused 2 'takes one preset' tune shakespeare mlp
refused 2 'did you mean "shakespeare"?' tune shakespere data_kind=synthetic
refused 2 'nothing to learn from' tune shakespeare
refused 1 'absent.txt' tune shakespeare data=absent.txt
refused 2 'did you mean "width"?' tune shakespeare $tiny widht=3
refused 2 'proxy is 64, expected at most the width 32' tune shakespeare $tiny proxy=64
refused 2 'multiple of head_size' tune shakespeare $tiny proxy=20
refused 2 'proxy=x' tune shakespeare $tiny proxy=x
refused 2 'width' tune shakespeare $tiny width=32,64
refused 2 'candidates=none: expected a whole number from 1 to 2000' tune shakespeare $tiny candidates=none
refused 2 'rungs=99: expected' tune shakespeare $tiny rungs=99
refused 2 'lr is 2, expected at most 1' tune shakespeare $tiny lr=2
refused 1 'nowhere/x.ini' tune shakespeare $tiny out=nowhere/x.ini
refused 1 'whole.ini exists' tune shakespeare $tiny out=whole.ini
"$scion" tune shakespeare $tiny ledger=whole.ini out=new.ini > out 2>&1 && fault 'a ledger that is none'
holds out 'whole.ini is not a ledger'
[ -e new.ini ] && fault 'a file was written without a result'
[ $faults -eq 0 ]
