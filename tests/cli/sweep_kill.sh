#!/bin/sh
# Two processes work on one ledger while one of them, its worker, or both are killed again and again. In the end every
# run is there once, done, with the loss of an undisturbed sweep.
#     sweep_kill.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
trap 'kill -9 $a $b 2> /dev/null; rm -rf "$dir"' EXIT
a=
b=
echo "SCION_TEST_SEED=$seed"

grid='model=mlp norms=image layers=2 batch=32 steps=200 eval_batches=1 data_kind=synthetic width=8,16,24
    lr=2^-8..2^-4 seed=1,2 threads=1'
runs=30
# Runs that die too often are failed; here no run is at fault, so they are tried again.
"$scion" sweep $grid ledger=calm.db > out 2>&1 || { cat out; fault "the sweep that nobody disturbs: $?"; }
"$scion" sweep show calm.db --json calm.json > /dev/null 2>&1 || fault 'show'
"$scion" sweep $grid ledger=wild.db --add > out 2>&1 || fault "--add: $(cat out)"

work() { "$scion" sweep ledger=wild.db jobs=1 threads=1 $1 > log.$2 2>&1 & }
# Workers of process $1: those whose parent it is.
children() {
    for stat in /proc/[0-9]*/stat; do
        read -r line 2> /dev/null < "$stat" || continue
        rest=${line##*) }
        rest=${rest#* }
        [ "${rest%% *}" = "$1" ] && echo "${line%% *}"
    done
}

work '' a
a=$!
work '' b
b=$!
round=0
while [ $round -lt 12 ]; do
    round=$((round + 1))
    draw 20
    sleep "0.$((drawn + 10))"
    draw 2
    [ "$drawn" -eq 0 ] && victim=$a || victim=$b
    draw 3
    case $drawn in
        0) kill -9 "$victim" $(children "$victim") 2> /dev/null ;; # both
        1) kill -9 "$victim" 2> /dev/null ;;                       # the parent: its worker stops by itself
        2) kill -9 $(children "$victim") 2> /dev/null ;;           # the worker: its parent continues
    esac
    # Whatever was killed, the ledger can be read.
    "$scion" sweep show wild.db > out 2>&1 || fault "round $round: $(cat out)"
    if ! kill -0 "$a" 2> /dev/null; then
        work '' a
        a=$!
    fi
    if ! kill -0 "$b" 2> /dev/null; then
        work '' b
        b=$!
    fi
done
wait "$a" "$b"
a=
b=
# Workers whose parent was killed may still be at work for a second.
tries=0
while [ $tries -lt 20 ]; do
    "$scion" sweep ledger=wild.db jobs=1 threads=1 --retry > out 2>&1 || fault "the end: $(cat out)"
    grep -q "^$runs runs done, 0 diverged, 0 failed;" out && break
    sleep 0.3
    tries=$((tries + 1))
done
grep -q "^$runs runs done, 0 diverged, 0 failed;" out || fault "not all runs are done: $(cat out)"
"$scion" sweep show wild.db --json wild.json > /dev/null 2>&1 || fault 'show'
[ "$(json wild.json 'sum(p["seeds"] == 2 for g in o["groups"] for w in g["widths"] for p in w["points"])')" -eq $((runs / 2)) ] || fault "not every run is there once: $(cat wild.json)"
cmp -s calm.json wild.json || { fault 'other losses than in the sweep that nobody disturbed:'; diff calm.json wild.json; }
[ $faults -eq 0 ]
