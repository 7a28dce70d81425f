#!/bin/sh
# Several ranks train as one: the same bits where they share out whole micro-batches and deterministic=yes, the same up to
# rounding elsewhere; checkpoints, validations and bytes on the wire; workers of a sweep.
#     mpi.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
. "${0%/*}/opening_mpi"

text 400 > text.txt
tiny='shakespeare data=text.txt width=64 head_size=32 layers=2 block=16 batch=4 accum=4 log_every=1 eval_every=2
    norm_every=0 save_every=2 eval_batches=3 comm_timeout=100'
last=step-00000004.safetensors

# NAME RANKS SETTING...: a run that must succeed, in folder NAME.
run() {
    name=$1 number=$2
    shift 2
    # shellcheck disable=SC2086
    ranks "$number" train $tiny steps=4 "$@" out="$name" > log 2>&1 || { fault "$name: $number ranks: $(cat log)"; }
}

# ---- Bits. Rules with state, without, with joint norms, with two gradients; elementwise ranges
# (400 x 256 entries are more than one range); bfloat16, whose sums are rounded at random; and every one of them with 1,
# 2 and 4 ranks.
kind=0
both='weights=bf16 grads=bf16'
for setting in 'rule=scion' 'rule=scion light=1' 'rule=adamw clip_norm=1 lr=2^-8' 'rule=mars' 'rule=mnsgd lr=2^-8' \
    'norms=sign width=192 head_size=64' "$both" "$both light=1" "$both norms=sign width=192 head_size=64" \
    "$both rule=mars" 'grads=bf16 rounding=nearest light=1' 'compute=bf16' "compute=bf16 $both light=1"; do
    kind=$((kind + 1))
    for number in 1 2 4; do
        # shellcheck disable=SC2086
        run "bits$kind-$number" $number $setting deterministic=yes
    done
    same bits$kind-1 bits$kind-2
    same bits$kind-1 bits$kind-4
done
# Bits per byte too, of steps and validations; the text has characters of two bytes.
sed 's/quick/qu\xc3\xaeck/' text.txt > accents.txt
for number in 1 2 4; do
    run bytes$number $number data=accents.txt deterministic=yes tensorboard=boards
    [ "$(ls boards/bytes$number | wc -l)" -eq 1 ] || fault "event files of $number ranks: $(ls boards/bytes$number)"
    json bytes$number/metrics.jsonl '[line.get("bits_per_byte", line.get("val_bits_per_byte")) for line in o]' > bytes$number.bits
    cmp -s bytes1.bits bytes$number.bits || fault "$number ranks: $(paste bytes1.bits bytes$number.bits)"
done
grep -q None bytes1.bits && fault "no bits per byte: $(cat bytes1.bits)"
# Without mpirun it is the same sum.
# shellcheck disable=SC2086
"$scion" train $tiny steps=4 deterministic=yes out=alone > log 2>&1 || fault "alone: $(cat log)"
same alone bits1-2

# ---- Rounding. float32 has 6e-8; five sums and four steps make it some 1e-6, a wrong weight or order 1e-2.
# 3 ranks: 6, 5 and 5 sequences; a micro-batch divided by 2 ranks; the cheapest order.
run three 3 deterministic=yes
run divided1 1 batch=6 accum=1
run divided2 2 batch=6 accum=1
run divided4 4 batch=6 accum=1
run cheapest 2
run light3 3 light=1
near bits1-1 three 1e-5
near divided1 divided2 1e-5
near divided1 divided4 1e-5
near bits1-1 cheapest 1e-5
near bits2-1 light3 1e-5
tensors three/$last > a
tensors bits1-1/$last > b
cmp -s a b && fault '3 ranks have the bits of 1: the test of rounding shows nothing'
# bfloat16 has 4e-3.
run half 2 wire=bf16
near bits1-1 half 3e-2
for number in 1 2 3 4; do
    run stored$number $number weights=bf16 grads=bf16 light=1 activations=bf16
    near bits2-1 stored$number 3e-2
done
[ "$(tail -n 1 stored1.losses)" = "$(tail -n 1 bits2-1.losses)" ] && fault 'weights=bf16 changed nothing'
[ "$(tail -n 1 half.losses)" = "$(tail -n 1 cheapest.losses)" ] && fault 'wire=bf16 changed nothing'

# ---- Batch normalisation: statistics of each micro-batch, running ones in the order of one rank
for number in 1 2 4; do
    ranks $number train airbench data= data_kind=synthetic image_size=28 width=8 batch=8 accum=4 steps=4 deterministic=yes \
        tta=none comm_timeout=100 out=images$number > log 2>&1 || fault "airbench on $number ranks: $(cat log)"
done
same images1 images2
same images1 images4
for number in 1 2; do
    ranks $number train airbench data= data_kind=synthetic image_size=28 width=8 batch=8 accum=4 steps=4 deterministic=yes \
        compute=bf16 tta=none comm_timeout=100 out=mixed$number > log 2>&1 || fault "compute=bf16 on $number ranks: $(cat log)"
done
same mixed1 mixed2
# ... mistakes are collected by one rank alone, and by eval
[ -e images4/mistakes.json ] && fault '4 ranks wrote mistakes.json'
"$scion" eval images4/$last mistakes=found.json > log 2>&1 || fault "eval of 4 ranks' run: $(cat log)"
cmp -s images1/mistakes.json found.json || fault '4 ranks get other images wrong than one'
ranks 3 train airbench data= data_kind=synthetic image_size=28 width=8 batch=8 accum=2 steps=4 out=none > log 2>&1 &&
    fault 'batch normalisation: 3 ranks for 2 micro-batches'
holds log 'batch normalisation cannot divide them'

# ---- Token shards: each rank hashes its share, and all know the hash of one rank; a token beyond the vocabulary is found
# by the rank that reads the shard
mkdir shards
for i in 1 2 3 4; do shard shards/a_train_$i.bin $((900 + i)); done
shard shards/a_val_0.bin 200
few='data=shards vocab=100 width=32 head_size=32 layers=1 block=16 batch=4 accum=4 steps=2 lr=0.01 comm_timeout=100'
for number in 1 2 3; do
    # shellcheck disable=SC2086
    ranks $number train $few out=shards$number > log 2>&1 || fault "shards on $number ranks: $(cat log)"
    json shards$number/summary.json 'o["data_hash"]' > hash$number
    cmp -s hash1 hash$number || fault "$number ranks know the data by $(cat hash$number), one by $(cat hash1)"
done
printf '\144' | dd of=shards/a_train_4.bin bs=1 seek=1500 conv=notrunc 2> /dev/null
# shellcheck disable=SC2086
ranks 2 train $few out=none > log 2>&1 && fault 'a token beyond the vocabulary'
holds log 'a_train_4.bin: token 100'

# ---- Checkpoints know no ranks: begun by 3, gone on with by 2 and by 1, which have the steps of one rank
# shellcheck disable=SC2086
ranks 3 train $tiny steps=8 max_minutes=1e-9 out=moves > log 2>&1 || fault "3 ranks, stopped: $(cat log)"
holds log 'scion resume moves'
cp -r moves moves1
ranks 2 resume moves max_minutes=0 > log 2>&1 || fault "resume with 2 ranks: $(cat log)"
"$scion" resume moves1 max_minutes=0 > log 2>&1 || fault "resume with 1 rank: $(cat log)"
# shellcheck disable=SC2086
"$scion" train $tiny steps=8 out=stays > log 2>&1 || fault "1 rank: $(cat log)"
near moves stays 1e-5
near moves1 stays 1e-5
ls moves | grep -q tmp && fault "temporary files are left: $(ls moves)"
# ... also in bfloat16, and bit for bit where sums are deterministic
# shellcheck disable=SC2086
ranks 2 train $tiny $both light=1 deterministic=yes steps=8 max_minutes=1e-9 out=halves > log 2>&1 ||
    fault "2 ranks in bfloat16, stopped: $(cat log)"
ranks 4 resume halves max_minutes=0 > log 2>&1 || fault "resume in bfloat16 with 4 ranks: $(cat log)"
# shellcheck disable=SC2086
"$scion" train $tiny $both light=1 deterministic=yes steps=8 out=whole > log 2>&1 || fault "1 rank: $(cat log)"
last=step-00000008.safetensors same halves whole

# ---- Bytes on the wire: as many as the plan says, 2 (N - 1) times the parameters of 4 bytes; of 2, where all of them
# are matrices
for number in 2 3 4 2h 3h; do
    bytes=4 storage=
    case $number in *h) bytes=2 storage=$both ;; esac
    number=${number%h}
    # shellcheck disable=SC2086
    ranks $number train $tiny steps=4 norms=sign $storage out=wire$number-$bytes > log 2>&1 || fault "wire: $(cat log)"
    # shellcheck disable=SC2086
    "$scion" plan $tiny norms=sign $storage ranks=$number > planned 2>&1 || fault "plan: $(cat planned)"
    sent=$(tr '\n' ' ' < log | sed 's/  */ /g' | sed -n 's/.*ranks sent \([0-9]*\) bytes of gradients and \([0-9]*\) of weights.*/\1 \2/p')
    expected=$(tr '\n' ' ' < planned | sed 's/  */ /g' | sed -n 's/.* sent in a step (\([0-9]*\) and \([0-9]*\) bytes).*/\1 \2/p')
    holds planned "$number ranks, memory of each: weights"
    elements=$(sed -n 's/^in all *\([0-9]*\)/\1/p' log)
    [ -n "$sent" ] && [ "$sent" = "$expected" ] || fault "$number ranks sent '$sent' bytes, planned were '$expected'"
    all=$((bytes * (number - 1) * elements))
    [ "$sent" = "$all $all" ] || fault "$number ranks sent '$sent' bytes, expected $all each way"
done

# ---- A sweep: each process a worker, every run once; other commands: rank 0 alone
# shellcheck disable=SC2086
ranks 3 sweep $tiny lr=2^-6..2^-4 seed=1,2 steps=2 ledger=sweep.db > log 2>&1 || fault "sweep: $(cat log)"
holds log '6 runs done, 0 diverged, 0 failed'
[ "$(grep -c 'runs done' log)" -eq 1 ] || fault "a sweep is told of more than once: $(cat log)"
# ... and a tuning: three processes find what one finds
small='data_kind=synthetic data= vocab=24 layers=1 width=32 head_size=8 block=16 batch=4 steps=12 eval_batches=1 proxy=16'
for number in 1 3; do
    # shellcheck disable=SC2086
    ranks $number tune shakespeare $small candidates=6 rungs=2 out=tuned$number.ini ledger=tuned$number.db > log 2>&1 ||
        fault "tune on $number: $(cat log)"
    grep -v -e 'seconds of training' -e 'scion tune' tuned$number.ini > found$number
done
cmp -s found1 found3 || fault "a tuning on 3 processes: $(diff found1 found3)"
[ "$(grep -c 'new runs' log)" -eq 1 ] || fault "a tuning is told of more than once: $(cat log)"
# ---- Cores. A launcher's own binding is undone, also behind a shell; one that the user chose is kept.
unset OMP_NUM_THREADS OMPI_MCA_hwloc_base_binding_policy
cores=$(nproc)
one='train data_kind=synthetic data= model=mlp width=16 image_size=8 batch=4 accum=2 steps=1 eval_batches=1'
# WORDS-OF-MPIRUN EXPECTED ARGUMENT...: the threads that a command prints.
threads() {
    words=$1 expected=$2
    shift 2
    # shellcheck disable=SC2086
    $mpirun $words "$@" > log 2>&1 || fault "mpirun $words: $(cat log)"
    found=$(tr '\n' ' ' < log | grep -oE 'threads +[0-9]+ |[0-9]+ +threads?,' | grep -oE '[0-9]+')
    [ "$found" = "$expected" ] || fault "mpirun $words $*: ${found:-no} threads, expected $expected: $(cat log)"
}
half=$((cores / 2))
[ $half -gt 0 ] || half=1
threads '-n 1' "$cores" "$scion" version
threads '-n 1' "$cores" sh -c "'$scion' version; true"
threads '-n 1 --bind-to hwthread' 1 "$scion" version
# shellcheck disable=SC2086
threads '-n 1' "$cores" "$scion" $one out=cores1
# shellcheck disable=SC2086
threads '-n 2' $half "$scion" $one out=cores2
# ... for all threads of a rank, however many
# shellcheck disable=SC2086
$mpirun -n 1 "$scion" $one steps=1000000 eval_every=0 threads=2 out=cores3 > log 2>&1 &
launcher=$!
tries=0
until grep -q '^run:' log || [ $tries -ge 600 ]; do sleep 0.05; tries=$((tries + 1)); done
process=$(pgrep -x -f "$scion .* out=cores3")
cat /proc/"$process"/task/*/status | grep '^Cpus_allowed_list' | sort -u > found
grep '^Cpus_allowed_list' /proc/$$/status | cmp -s - found || fault "threads=2 run on $(cat found)"
kill -TERM "$process"
wait $launcher
export OMP_NUM_THREADS=1 OMPI_MCA_hwloc_base_binding_policy=none

ranks 3 version > log 2>&1 || fault "version: $(cat log)"
[ "$(grep -c '^scion ' log)" -eq 1 ] || fault "version on 3 ranks: $(cat log)"

[ $faults -eq 0 ]
