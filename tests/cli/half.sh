#!/bin/sh
# Half precision: 8, 6 and 4 bytes a parameter as the program prints them, against the memory that the process had at its
# peak; a run in bfloat16 from beginning to end; who says what cannot be.
#     half.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

# The number after $1 in file $2.
number() {
    sed -n "s/.*$1 *\([0-9.][0-9.]*\).*/\1/p" "$2" | tail -1
}

# ---- Memory. 28 million parameters and little else; signs cost no workspace. What the program itself takes (code,
# tables, buffers of files) is allowed 16 MB.
# (a sanitized program reserves terabytes of addresses and cannot even say its version)
if (ulimit -v 4000000; "$scion" version > /dev/null 2>&1); then
    for storage in 8 6 4; do
        case $storage in
        8) options= ;;
        6) options='grads=bf16' ;;
        4) options='grads=bf16 weights=bf16' ;;
        esac
        # shellcheck disable=SC2086
        "$scion" train shakespeare data_kind=synthetic data= width=768 layers=4 block=8 batch=1 steps=1 norms=sign \
            light=yes eval_batches=1 norm_every=0 threads=1 out=memory $options > log 2>&1 || fault "$options: $(cat log)"
        bytes=$(sed -n 's/^ *\([0-9.]*\) bytes a parameter.*/\1/p' log)
        [ "$bytes" = $storage ] || fault "$options: $bytes bytes a parameter, expected $storage"
        planned=$(sed -n 's/.*in all \([0-9.]*\) MB$/\1/p' log)
        peak=$(number '"peak_bytes":' memory/summary.json)
        elements=$(sed -n 's/^in all *\([0-9]*\)$/\1/p' log)
        awk -v peak="$peak" -v planned="$planned" -v floor="$((elements * storage))" 'BEGIN {
            exit !(peak >= floor && peak <= 1.05e6 * planned + 16e6)
        }' || fault "$options: the process had $peak bytes at its peak, $planned MB were planned"
        rm -r memory
    done
fi

# ---- A run
text 3000 > text.txt
tiny='data=text.txt width=32 head_size=16 layers=2 block=16 batch=4 eval_batches=2 threads=1'
# shellcheck disable=SC2086
"$scion" train shakespeare $tiny steps=20 save_every=10 weights=bf16 grads=bf16 light=yes activations=bf16 out=run \
    > log 2>&1 || fault "$(cat log)"
mv run/step-00000020.safetensors whole
"$scion" resume run/step-00000010.safetensors > log 2>&1 || fault "$(cat log)"
cmp -s whole run/step-00000020.safetensors || fault "a resumed run is another"
head -c 4000 whole | grep -q BF16 || fault "the checkpoint has no bfloat16"
"$scion" eval run > log 2>&1 || fault "$(cat log)"
"$scion" sample run tokens=20 > log 2>&1 || fault "$(cat log)"
"$scion" resume run weights=float32 > log 2>&1 && fault "weights=float32 was taken when resuming"
grep -q 'init=' log || fault "weights=float32 when resuming: $(cat log)"
# shellcheck disable=SC2086
"$scion" train shakespeare $tiny steps=2 init=run out=full > log 2>&1 || fault "$(cat log)"
refused 2 'float32' train shakespeare data=text.txt weights=half

# ---- The spectral lmo in bfloat16: part of the run, which goes on as it began; and another run than in float32
for compute in float32 bf16; do
    # shellcheck disable=SC2086
    "$scion" train shakespeare $tiny steps=20 save_every=10 polar_compute=$compute out=polar-$compute > log 2>&1 ||
        fault "polar_compute=$compute: $(cat log)"
done
mv polar-bf16/step-00000020.safetensors whole
cmp -s whole polar-float32/step-00000020.safetensors && fault "polar_compute=bf16 changes nothing"
"$scion" resume polar-bf16/step-00000010.safetensors > log 2>&1 || fault "$(cat log)"
cmp -s whole polar-bf16/step-00000020.safetensors || fault "a run with polar_compute=bf16 is another when resumed"
a=$(number '"loss":' polar-float32/summary.json) b=$(number '"loss":' polar-bf16/summary.json)
awk -v a="$a" -v b="$b" 'BEGIN { exit !(b < 1.05 * a && a < 1.05 * b) }' ||
    fault "after 20 steps the loss is $a, with polar_compute=bf16 $b"
refused 2 'float32 only' train shakespeare data=text.txt polar_compute=bf16 polar=cubic

# ---- Mixed precision: part of the run, which goes on as it began; another run than in float32, whose spectral lmo follows
# shellcheck disable=SC2086
"$scion" train shakespeare $tiny steps=20 save_every=10 compute=bf16 out=mixed > log 2>&1 || fault "compute=bf16: $(cat log)"
grep -q '"polar_compute": *"bf16"' mixed/summary.json || fault "polar_compute does not follow compute"
mv mixed/step-00000020.safetensors whole
"$scion" resume mixed/step-00000010.safetensors > log 2>&1 || fault "$(cat log)"
cmp -s whole mixed/step-00000020.safetensors || fault "a run with compute=bf16 is another when resumed"
"$scion" resume mixed compute=float32 > log 2>&1 && fault "compute=float32 was taken when resuming"
grep -q 'init=' log || fault "compute=float32 when resuming: $(cat log)"
b=$(number '"loss":' mixed/summary.json)
awk -v a="$a" -v b="$b" 'BEGIN { exit !(a != b && b < 1.05 * a && a < 1.05 * b) }' ||
    fault "after 20 steps the loss is $a, with compute=bf16 $b"
# It is measured as it was trained, or in float32.
"$scion" eval mixed > as-trained 2>&1 || fault "$(cat as-trained)"
"$scion" eval mixed compute=float32 > in-float32 2>&1 || fault "$(cat in-float32)"
cmp -s as-trained in-float32 && fault "eval in float32 gives the same: $(cat in-float32)"
"$scion" sample mixed tokens=20 > log 2>&1 || fault "$(cat log)"
refused 2 'compute' train shakespeare data=text.txt autocast=yes
refused 2 'float32 bf16' train shakespeare data=text.txt compute=fp16
# The one line: a long run where pairs are multiplied (it is stopped after its first step), a short one, and where they
# are not.
for isa in portable_pairs neon_pairs; do # one of them is there
    SCION_ISA=$isa "$scion" version | grep -q "kernels *$isa\$" || continue
    # shellcheck disable=SC2086
    SCION_ISA=$isa "$scion" train shakespeare $tiny steps=1000000000 max_minutes=1e-9 out=long > log 2>&1
    grep -q 'note: compute=bf16 would be faster' log || fault "nothing is said of compute=bf16: $(cat log)"
    # shellcheck disable=SC2086
    SCION_ISA=$isa "$scion" train shakespeare $tiny steps=1 out=short > log 2>&1 || fault "$(cat log)"
    grep -q 'would be faster' log && fault "a short run should be in bf16: $(cat log)"
done
for isa in portable neon; do
    SCION_ISA=$isa "$scion" version | grep -q "kernels *$isa\$" || continue
    # shellcheck disable=SC2086
    SCION_ISA=$isa "$scion" train shakespeare $tiny steps=1 compute=bf16 out=slow > log 2>&1 || fault "$(cat log)"
    grep -q 'note: compute=bf16 is not faster here' log || fault "nothing is said of slow bf16: $(cat log)"
done
[ $faults -eq 0 ]
