#!/bin/sh
# The paper's figures: two that are not sweeps, one that is, shortened as far as it goes; stopped and resumed; what
# is wrong.
#     reproduce.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
text 450 > text.txt

# ---- Figures that are not sweeps: the paper's claims hold
for figure in rates input-radius; do
    "$scion" reproduce $figure > out 2> log || fault "$figure: $? $(cat log)"
    holds out 'claim: '
    grep -q '^reproduced: ' out || fault "$figure: $(cat out)"
    tail -n 1 out | grep -qx "reproduce/$figure/report.html" || fault "$figure: the last line names the page"
    holds reproduce/$figure/report.html '</html>'
    holds reproduce/$figure/report.html 'Claim: '
    # Every part of the claim with its verdict, and the margin, in the output and on the page.
    grep -q '^  kept  ' out || fault "$figure names no part: $(cat out)"
    holds out 'margin: exponents up to '
    holds reproduce/$figure/report.html 'Margin: exponents up to '
    holds reproduce/$figure/report.html '>kept<'
    awk 'length > 80 { bad = 1 } END { exit bad }' out || fault "$figure: a line has more than 80 columns: $(cat out)"
done
holds reproduce/rates/report.html 'slope -1/2'
holds reproduce/rates/report.html 'slope -1/4'
holds reproduce/rates/report/rates-noise.csv 'slope -1/4,64,'
"$scion" reproduce rates seeds=1 out=one > out 2> log || fault "one seed: $(cat log)"
tr -s ' \n' ' ' < out > flat
holds flat 'one seed'
grep -q '^undecided: 2 parts kept, 0 failed, 2 undecided' out || fault "one seed of noise decides: $(cat out)"

# ---- A sweep: shortened, stopped by its budget, resumed until it is complete
"$scion" reproduce spectral-norms data=text.txt budget=0.1s jobs=1 threads=1 out=some/where > out 2> log ||
    fault "spectral-norms: $? $(cat log)"
holds log 'shortened to 5% of their steps'
holds log 'after the budget of'
holds out 'repeat the command to resume'
holds out 'some/where/report.html'
grep -q '^reproduced' out && fault "spectral-norms is decided before its end: $(cat out)"
tries=0
while grep -q 'not complete' out && [ $tries -lt 4 ]; do
    tries=$((tries + 1))
    "$scion" reproduce spectral-norms data=text.txt budget=30s jobs=1 threads=1 out=some/where > out 2> log ||
        fault "spectral-norms resumed: $? $(cat log)"
    holds out 'claim: the norms of the weights'
    grep -q 'shortened' log && fault "spectral-norms is planned twice: $(cat log)"
done
grep -q 'not complete' out && fault "spectral-norms does not come to an end: $(cat out)"
holds out 'rule=uscion'
grep -q '^undecided: 1 part kept, 0 failed, 1 undecided' out || fault "spectral-norms of one seed: $(cat out)"
holds out 'size: stand-in: a 3-layer GPT'
holds some/where/report.html '</html>'
holds some/where/report.html 'the largest norm of all layers, at any measurement, is'
holds some/where/report.html 'Size: stand-in: a 3-layer GPT of width 128 on characters for NanoGPT (124M); 3 runs, 1 seed, 24 steps'
"$scion" reproduce spectral-norms data=text.txt budget=20m seeds=2 jobs=1 threads=1 out=some/where > out 2> log ||
    fault "spectral-norms with another seed: $? $(cat log)"
holds log 'resuming the 6 runs of some/where/ledger.db, with more seeds'
holds some/where/report.html '; 6 runs, 2 seeds, 24 steps'
grep -q '^reproduced: 2 parts kept, 0 failed, 0 undecided' out || fault "spectral-norms of two seeds: $(cat out)"
"$scion" sweep show some/where/ledger.db > out 2>&1 || fault "its ledger is one of sweeps: $(cat out)"

# ---- A figure of images, on ones that we make: its parts are named, whatever is left
mkdir cifar
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    for label in 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7; do
        printf "\\$label"
        head -c 3072 /dev/urandom
    done > cifar/$file.bin
done
"$scion" reproduce cnn-epochs data=cifar budget=0.1s jobs=1 threads=1 > out 2> log || fault "cnn-epochs: $? $(cat log)"
holds log 'shortened to 5% of their steps'
tr -s ' \n' ' ' < out > flat
holds flat 'uscion: the norms grow like the square root of the steps: '
holds flat 'scion: the norms of the weights stay within their bounds: '
holds flat 'scion ends with a lower loss than uscion in the longest runs, each at its best lr: '
grep -q '^undecided: ' out || fault "cnn-epochs is decided before its end: $(cat out)"

# ---- Ctrl-C while the runs of a larger one are planned (or, on a fast machine, begun): reported, and nothing half done
"$scion" reproduce gpt-transfer data=text.txt out=stopped > out 2> log &
process=$!
tries=0
while [ $tries -lt 200 ] && [ ! -s stopped/ledger.db ]; do sleep 0.05; tries=$((tries + 1)); done
kill -INT $process
wait $process
status=$?
[ $status -eq 130 ] || fault "Ctrl-C: exit status $status"
grep -q 'repeat the command to resume' out log || fault "Ctrl-C: $(cat out log)"
"$scion" sweep show stopped/ledger.db > out 2>&1 || fault "stopped while planning: $(cat out)"

# ---- Errors
wrong() { # STATUS TEXT ARGUMENTS
    expected=$1
    text=$2
    shift 2
    "$scion" reproduce "$@" > wrong.out 2> wrong.log
    status=$?
    [ $status -eq "$expected" ] || fault "reproduce $*: exit status $status, expected $expected"
    [ -s wrong.out ] && fault "reproduce $*: prints $(cat wrong.out)"
    head -n 1 wrong.log > first
    holds first "$text"
}
wrong 2 'no figure nonsense' nonsense
holds wrong.log 'shallow-gpt-transfer'
wrong 2 'name one figure'
wrong 2 'name one figure' rates input-radius
wrong 2 'scion reproduce has no lr' rates lr=3
wrong 2 'budget=soon: expected a time' rates budget=soon
wrong 2 'give data=FILE' gpt-transfer
XDG_DATA_HOME=$dir/nothing
export XDG_DATA_HOME
wrong 2 'cnn-transfer needs CIFAR-10: give data=cifar10 (scion data get cifar10 fetches it)' cnn-transfer
wrong 2 'jobs=0' rates jobs=0
wrong 2 'seeds=0' rates seeds=0
wrong 1 'absent.txt: cannot open' gpt-transfer data=absent.txt out=absent
wrong 1 'text.txt/x: cannot make' rates out=text.txt/x
wrong 1 '/dev/null/x: cannot make' rates out=/dev/null/x
[ $faults -eq 0 ]
