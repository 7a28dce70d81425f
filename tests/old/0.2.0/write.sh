#!/bin/sh
# Writes the runs, ledgers and expected values in this folder with the program of version 0.2.0. See README.md.
#     tests/old/0.2.0/write.sh PATH-OF-SCION FOLDER
# FOLDER must not exist; it gets data, runs, ledgers, and what the same program makes of them afterwards. Every path in
# what is written is relative to it.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
scion=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
[ "$("$scion" version | head -n 1)" = 'scion 0.2.0' ] || { echo "$1 is not version 0.2.0"; exit 1; }
mkdir "$2"
cd "$2"
cp "$here/small.ini" .
mkdir runs sweeps expected

# ---- What is learned from

# SEED COUNT LIST: words of a list, drawn by a linear congruential generator, twelve a line.
words() {
    awk -v seed="$1" -v n="$2" -v list="$3" 'BEGIN {
        count = split(list, word, " ")
        for (i = 1; i <= n; i++) {
            seed = (seed * 1103 + 12345) % 65536
            printf "%s%s", word[int(seed / 7) % count + 1], i % 12 ? " " : ".\n"
        }
    }'
}
# Numbers on standard input become bytes.
bytes() {
    while read -r number; do printf "\\$(printf %03o "$number")"; done
}
# UTF-8 with characters of one, two and three bytes; and the same kind of text in Latin-1, which is not UTF-8.
words 1 720 'the quick brown fox jumps over a lazy dog über café naïve → ∑ 1 2 3' > text.txt
words 2 720 "$(printf 'le gar\347on a vu la for\352t d\351j\340 une fois 4 5')" > bytes.txt

# NAME SEED COUNT: a shard of tokens 0 to 31, each followed by one of two.
shard() {
    {
        awk -v n="$3" 'BEGIN {
            head[0] = 20240520; head[1] = 1; head[2] = n
            for (i = 0; i < 256; i++)
                for (b = 0; b < 4; b++) { print head[i] % 256; head[i] = int(head[i] / 256) }
        }'
        awk -v seed="$2" -v n="$3" 'BEGIN {
            for (i = 0; i < n; i++) {
                seed = (seed * 1103 + 12345) % 65536
                token = (token * 5 + 3 + 7 * (int(seed / 97) % 2)) % 32
                print token
                print 0
            }
        }'
    } | bytes > "$1"
}
mkdir tokens
shard tokens/part_train.bin 3 1500
shard tokens/part_val.bin 4 300

# STEM SEED COUNT: images of 6 x 6 in four classes, and their labels, in idx files.
images() {
    awk -v n="$3" 'BEGIN { print "0 0 8 3 0 0 0", n, "0 0 0 6 0 0 0 6" }' | tr ' ' '\n' | bytes > "$1-images-idx3-ubyte"
    awk -v seed="$2" -v n="$3" 'BEGIN {
        for (i = 0; i < n; i++)
            for (k = 0; k < 36; k++) {
                seed = (seed * 1103 + 12345) % 65536
                print (k % 4 == i % 4 ? 120 : 0) + int(seed / 97) % 128
            }
    }' | bytes >> "$1-images-idx3-ubyte"
    awk -v n="$3" 'BEGIN { print "0 0 8 1 0 0 0", n; for (i = 0; i < n; i++) print i % 4 }' | tr ' ' '\n' | bytes |
        gzip -n > "$1-labels-idx1-ubyte.gz"
}
mkdir images
images images/train 5 96
images images/t10k 6 32

# ---- Runs that were stopped. `train NAME AT OPTION...` sends SIGTERM when step AT was saved; a run that ended before it
# could be stopped is made again.
train() {
    name=$1 at=$2
    shift 2
    for try in 1 2 3 4 5; do
        rm -rf "runs/$name"
        "$scion" train "$@" save_every=8 out="runs/$name" > log 2>&1 &
        process=$!
        while [ ! -e "runs/$name/step-$(printf %08d "$at").safetensors" ] && kill -0 $process 2> /dev/null; do :; done
        kill -TERM $process 2> /dev/null || true
        wait $process || [ $? = 143 ] || { cat log; exit 1; }
        ! grep "^stopped after step $at of" log || return 0
    done
    echo "$name: was not stopped after step $at"
    exit 1
}
train gpt-scion 16 small.ini norm_every=8 keep=2
train gpt-light 16 small.ini data=bytes.txt light=yes schedule=cosine warmup=6 lr_end=2^-8 keep=0
train gpt-muon 16 small.ini rule=muon norms=shared tied=yes lr=2^-6 accum=2 weight_decay=0.1 keep=0
train gpt-adamw 16 small.ini rule=adamw lr=2^-7 boundary_init=no clip_norm=1 weight_decay=0.1 recompute=yes keep=0
train gpt-mars 16 small.ini rule=mars zero_init=yes keep=0
train gpt-almond 16 small.ini rule=almond norms=rownorm,spectral,sign polar=express keep=0
train gpt-uscion-tokens 16 small.ini rule=uscion data=tokens data_kind=tokens vocab=32 vanishing=yes \
    schedule=constant_linear decay=12 layers=2 norm_every=8 keep=0
train mlp-images 16 model=mlp norms=image data=images layers=3 width=16 activation=relu batch=16 epochs=8 lr=2^-5 \
    radius_hidden=1 radius_last=64 threads=1 log_every=1 eval_every=6 keep=1
train mlp-synthetic 24 model=mlp norms=sign rule=signum data_kind=synthetic layers=2 width=6 batch=64 epochs=1 \
    lr=2^-9 threads=1 log_every=1 eval_every=16 eval_batches=4 keep=0
train mlp-sgd 16 model=mlp norms=image rule=sgd data=images layers=2 width=16 bias=no activation=tanh batch=16 \
    steps=48 lr=0.05 momentum=0.1 smoothing=0.1 threads=1 log_every=1 eval_every=8 keep=0

train cnn-synthetic 16 model=cnn data_kind=synthetic image_size=26 width=1 batch=16 steps=32 lr=2^-5 flip=alternate \
    translate=1 threads=1 log_every=1 eval_every=8 eval_batches=2 keep=0
train gpt-bf16 16 small.ini light=yes weights=bf16 grads=bf16 activations=bf16 keep=0

# ---- A run that ended: it goes on when it is given more steps.
"$scion" train small.ini steps=32 schedule=constant keep=1 norm_every=16 save_every=16 baseline=2.5 \
    out=runs/gpt-done > log 2>&1

# ---- Ledgers. NAME.args is the sweep's command, which says the same when it is given again.
sweep() {
    "$scion" sweep "$@" > log 2>&1 || [ $? = 1 ] || { cat log; exit 1; }
    grep 'runs' log | head -n 2
}
echo 'small.ini width=8,16 lr=2^-6,2^-5 rule=scion,adamw steps=6 eval_every=6' > sweeps/text.args
# shellcheck disable=SC2046 # words
sweep $(cat sweeps/text.args) ledger=sweeps/text.db
# shellcheck disable=SC2086 # from here on: mlp is a list of settings
mlp='model=mlp norms=image layers=2 width=8 batch=16 threads=1'
echo "$mlp data=images steps=12 lr=2^-6,2^-4 seed=1..2" > sweeps/states.args
# shellcheck disable=SC2046
sweep $(cat sweeps/states.args) ledger=sweeps/states.db
sweep $mlp data=images rule=sgd lr=1e6,1e-6 steps=12 ledger=sweeps/states.db # the first diverges
# Two whose data are gone when they are trained: they fail.
cp -r images gone
sweep $mlp data=gone lr=2^-6,2^-5 steps=12 ledger=sweeps/states.db --add
rm -r gone
sweep ledger=sweeps/states.db
# Two that were running when their machine died, then two that wait.
sweep $mlp data=images steps=6000 lr=2^-6,2^-4 ledger=sweeps/states.db --add
"$scion" sweep ledger=sweeps/states.db jobs=2 > log 2>&1 &
process=$!
running() { sqlite3 sweeps/states.db "SELECT count(*) FROM runs WHERE state = 'running'" 2> /dev/null; }
while [ "$(running)" != 2 ]; do :; done
# shellcheck disable=SC2046
kill -KILL $(ps -o pid= --ppid $process) $process
wait $process || true
[ "$(running)" = 2 ] || { echo 'not two runs were running'; exit 1; }
sweep $mlp data=images steps=12 lr=2^-3,2^-2 ledger=sweeps/states.db --add
# Layers' sizes, and a tuning with the file that it writes.
echo 'small.ini width=8,16,32 seed=1..2 --steps 2' > sweeps/coords.args
# shellcheck disable=SC2046
"$scion" coordcheck $(cat sweeps/coords.args) --ledger sweeps/coords.db > log 2>&1 || { cat log; exit 1; }
echo 'small.ini width=16 proxy=8 steps=12 --candidates 4 --rungs 2' > sweeps/tune.args
# shellcheck disable=SC2046
"$scion" tune $(cat sweeps/tune.args) --jobs 1 --out sweeps/tuned.ini --ledger sweeps/tune.db > log 2>&1 ||
    { cat log; exit 1; }

# ---- What this version makes of them, in a copy
rm log
cp -r "$PWD" "$PWD.copy"
cd "$PWD.copy"

# FILE: the numbers of metrics.jsonl, one a line: step, what, value.
values() {
    awk 'function field(key, at) {
             if (!match($0, "\"" key "\":[^,}]*")) return ""
             return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
         }
         function show(key, name) { if (field(key) != "" && field(key) != "null") print step, name, field(key) }
         {
             step = field("step")
             name = field("name")
             gsub(/"/, "", name)
             show("loss", "loss"); show("val_loss", "val_loss"); show("accuracy", "accuracy")
             show("norm", "norm:" name); show("bound", "bound:" name)
         }' "$1"
}
expected=$OLDPWD/expected
for folder in runs/*; do
    name=${folder#runs/}
    "$scion" eval $folder > out
    sed -n 's/^step \([0-9]*\)  validation loss \([0-9.]*\)  .*/\1 val_loss \2/p' out > "$expected/$name.eval"
    case $name in
    *tokens | mlp-* | cnn-*) ;;
    *) "$scion" sample $folder --tokens 64 --temperature 0 --prompt 'a ' > "$expected/$name.sample" ;;
    esac
    more=
    [ $name != gpt-done ] || { more=steps=48; echo $more > "$expected/$name.args"; }
    before=$(values $folder/metrics.jsonl | wc -l)
    "$scion" resume $folder $more > log 2>&1 || { cat log; exit 1; }
    values $folder/metrics.jsonl | tail -n +$((before + 1)) > "$expected/$name.resumed"
done
for ledger in text states tune; do
    "$scion" sweep show sweeps/$ledger.db --json "$expected/$ledger.json" > /dev/null
done
cd "$OLDPWD"
rm -r "$PWD.copy"
