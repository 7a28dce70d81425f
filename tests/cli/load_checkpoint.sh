#!/bin/sh
# examples/load_checkpoint.py, which knows nothing of us but docs/file-formats.md, computes the loss that eval prints: for
# every option that changes what the networks compute.
#     load_checkpoint.sh PATH-OF-SCION PRESETS
root=$(cd "${0%/*}/../.." && pwd) || exit 1
modules=numpy
. "$root/tests/find_python"
. "${0%/*}/opening"

load() { $python "$root/examples/load_checkpoint.py" "$@"; }

# LABEL RUN DATA [ARGUMENT...]: the logits of the first batch are the same to rounding (a few 1e-6 of the largest),
# the loss of all data likewise, and the number of tokens; accuracies may differ by ties.
same() {
    label=$1 run=$2 data=$3
    shift 3
    "$scion" eval "$run" "$@" --json > ours 2> log || fault "$label: $(cat log)"
    load "$run" "$data" > theirs 2> log || fault "$label: $(cat log)"
    first=
    [ -z "${SCION_LOGITS:-}" ] || [ "$data" = part_val.bin ] || first=logits
    [ -z "$first" ] || "$SCION_LOGITS" "$run/step-00000008.safetensors" data="$data" val_fraction=0.9 > $first 2> log ||
        fault "$label: $(cat log)"
    # shellcheck disable=SC2086 # no word if it is empty
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/examples $python - "$label" "$run" "$data" $first << 'END' || faults=$((faults + 1))
import json, sys
import numpy as np
import load_checkpoint as other

label, run, data = sys.argv[1:4]
ours, theirs = json.load(open("ours")), json.load(open("theirs"))
count = ours.get("tokens", ours.get("images"))
if count != theirs["count"] or not abs(ours["loss"] - theirs["loss"]) <= 2e-6 * abs(ours["loss"]) \
        or abs(ours["accuracy"] - theirs["accuracy"]) > 2 / count:
    sys.exit(f"FAIL {label} {ours} {theirs}")
if len(sys.argv) > 4:
    w, settings, meta = other.read(run)
    if settings["model"] == "gpt":
        tokens, T = other.encode(open(data, "rb").read(), meta), int(settings["block"])
        first = len(tokens) - int(0.9 * len(tokens))
        inputs = tokens[first : first + T]
    else:
        inputs, _ = other.read_images(data, meta)
    logits = other.MODELS[settings["model"]](w, settings, inputs)
    got = np.fromfile(sys.argv[4], np.float32).reshape(-1, logits.shape[1])[: len(logits)]
    size, error = np.abs(logits).max(), np.abs(got - logits[: len(got)]).max()
    if not (size > 0.01 and error <= 1e-5 * size):
        sys.exit(f"FAIL {label}: logits differ by {error} of {size}")
END
}

# SENTENCE ARGUMENT...: the script fails with this one sentence.
refuses() {
    sentence=$1
    shift
    ! load "$@" > out 2>&1 || fault "load_checkpoint.py $* should fail"
    [ "$(cat out)" = "load_checkpoint.py: $sentence" ] || fault "load_checkpoint.py $* says '$(cat out)', not '$sentence'"
}

text 60 > text.txt
text 20 > test.txt
tiny='data=text.txt layers=2 width=24 head_size=8 block=20 batch=4 steps=8 lr=2^-5 threads=1 log_every=0'
i=0
for options in '' 'tied=yes norms=shared activation=scaled_relu2' 'qk_norm=no activation=relu rotary_base=100' \
    'activation=gelu smoothing=0.2' 'activation=scaled_relu head_size=24' 'activation=relu2' 'activation=tanh' \
    'weights=bf16 grads=bf16 light=yes'; do
    i=$((i + 1))
    "$scion" train $tiny $options out=run$i > log 2>&1 || fault "$options: $(cat log)"
    same "gpt $options" run$i test.txt data=test.txt part=all
done
printf 'Gr\366\337e\0 und Gr\374\337e\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 > bytes.txt
"$scion" train $tiny data=bytes.txt out=bytes > log 2>&1 || fault "bytes: $(cat log)"
same bytes bytes bytes.txt part=all
cp "$root"/tests/old/0.2.0/tokens/part_*.bin .
"$scion" train $tiny data='part_*.bin' out=tokens > log 2>&1 || fault "tokens: $(cat log)"
same tokens tokens part_val.bin

# ---- Images
mkdir cifar
$python - << 'END'
import numpy as np, struct
r = np.random.default_rng(1)
for stem, n in (("train", 64), ("t10k", 24)):
    open(f"{stem}-images-idx3-ubyte", "wb").write(struct.pack(">4i", 0x803, n, 28, 30) + r.bytes(n * 840))
    open(f"{stem}-labels-idx1-ubyte", "wb").write(struct.pack(">2i", 0x801, n) + bytes(i % 7 for i in range(n)))
for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    records = r.integers(0, 256, (24, 3073)).astype(np.uint8)
    records[:, 0] %= 10
    records[:, 1:1025] //= 3 # channels with means of their own
    records.tofile(f"cifar/{name}.bin")
END
gzip t10k-labels-idx1-ubyte
i=0
while read -r data options; do
    i=$((i + 1))
    # shellcheck disable=SC2086 # a list of settings
    "$scion" train norms=image data=$data batch=8 steps=8 lr=2^-5 threads=1 log_every=0 $options out=image$i \
        > log 2>&1 < /dev/null || fault "$options: $(cat log)"
    same "$options" image$i $data < /dev/null
done << 'END'
. model=mlp width=12
. model=mlp width=12 bias=no activation=tanh layers=2
. model=mlp width=12 smoothing=0.1 activation=relu weights=bf16
. model=cnn width=4
cifar model=cnn width=4 whiten_bias=yes activation=gelu logit_divisor=3
. model=cnn width=4 weights=bf16 smoothing=0.2
. model=vit width=16 head_size=8 layers=2 patch=2
cifar model=vit width=16 head_size=4 layers=3 patch=8 norm=layernorm mlp_ratio=3 activation=gelu
cifar model=vit width=16 head_size=16 layers=1 patch=4 pool=mean patch_factor=convolution
. model=vit width=16 head_size=8 layers=2 patch=2 bias=no weights=bf16
END

# ---- Folders of runs, pipes, and sentences
load run1/best.safetensors > out || fault 'the list of tensors'
holds out 'blocks.1.mlp.down float32 24 96'
mkdir newest empty
cp run1/step-00000008.safetensors newest/step-9.safetensors
cp run2/step-00000008.safetensors newest/step-0000010.safetensors
load newest > out
load run2/step-00000008.safetensors | cmp -s - out || fault 'a folder without a best checkpoint stands for its newest'
load run1 2> log | head -n 1 > out
[ ! -s log ] || fault "| head: $(cat log)"
refuses 'nothing: No such file or directory' nothing
refuses 'empty: no checkpoint in this folder, expected best.safetensors or step-NNNNNNNN.safetensors' empty
! load test.txt > out 2>&1 || fault 'a text is no checkpoint'
holds out 'load_checkpoint.py: test.txt: not a checkpoint of scion, or damaged'
echo 'quick~' > odd.txt
refuses "odd.txt: '~' (symbol 5 of the text) is not in the model's vocabulary" run1 odd.txt
echo quick > short.txt
refuses 'short.txt: 6 tokens, expected at least 21 (block 20)' run1 short.txt
refuses 'empty: expected a folder with test_batch.bin (CIFAR-10) or t10k-images-idx3-ubyte' image1 empty
refuses 'cifar: images of 3072 values, expected 28 x 30 x 1' image1 cifar
[ $faults -eq 0 ]
