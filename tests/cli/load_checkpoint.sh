#!/bin/sh
# examples/load_checkpoint.py, which knows nothing of us but docs/file-formats.md, computes the loss that eval prints: for
# every option that changes what the networks compute.
#     load_checkpoint.sh PATH-OF-SCION PRESETS
root=$(cd "${0%/*}/../.." && pwd) || exit 1
python=
for candidate in python3 /usr/bin/python3; do # Debian's package is for Debian's own
    [ -n "$python" ] || ! $candidate -c 'import numpy' 2> /dev/null || python=$candidate
done
[ -n "$python" ] || { echo 'python3-numpy is not here'; exit 77; }
. "${0%/*}/opening"

# LABEL CHECKPOINT DATA [ARGUMENT...]: the logits of the first batch are the same to rounding (a few 1e-6 of the largest),
# the loss of all data likewise, and the number of tokens; accuracies may differ by ties.
same() {
    label=$1 run=$2 data=$3
    shift 3
    "$scion" eval "$run" "$@" --json > ours 2> log || fault "$label: $(cat log)"
    $python "$root/examples/load_checkpoint.py" "$run" "$data" > theirs 2> log || fault "$label: $(cat log)"
    [ -z "${SCION_LOGITS:-}" ] || "$SCION_LOGITS" "$run" data="$data" val_fraction=0.9 > logits 2> log || fault "$label: $(cat log)"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/examples $python - "$label" "$run" "$data" << 'END' || faults=$((faults + 1))
import json, os, sys
import numpy as np
import load_checkpoint as other

label, run, data = sys.argv[1:]
ours, theirs = json.load(open("ours")), json.load(open("theirs"))
count = ours.get("tokens", ours.get("images"))
if count != theirs["count"] or not abs(ours["loss"] - theirs["loss"]) <= 2e-6 * abs(ours["loss"]) \
        or abs(ours["accuracy"] - theirs["accuracy"]) > 2 / count:
    sys.exit(f"FAIL {label} {ours} {theirs}")
if "SCION_LOGITS" in os.environ:
    w, settings, meta = other.read(run)
    if settings["model"] == "gpt":
        tokens, T = other.encode(open(data, "rb").read(), meta), int(settings["block"])
        first = len(tokens) - int(0.9 * len(tokens))
        logits = other.gpt(w, settings, tokens[first : first + T])
    else:
        stem = f"{data}/%s-images-idx3-ubyte"
        logits = other.mlp(w, settings, other.standardise(other.idx(stem % "t10k"), other.idx(stem % "train")))
    got = np.fromfile("logits", np.float32).reshape(-1, logits.shape[1])[: len(logits)]
    size, error = np.abs(logits).max(), np.abs(got - logits[: len(got)]).max()
    if not (size > 0.01 and error <= 1e-5 * size):
        sys.exit(f"FAIL {label}: logits differ by {error} of {size}")
END
}

text 60 > text.txt
text 20 > test.txt
tiny='data=text.txt layers=2 width=24 head_size=8 block=20 batch=4 steps=8 lr=2^-5 threads=1 log_every=0'
i=0
for options in '' 'tied=yes norms=shared activation=scaled_relu2' 'qk_norm=no activation=relu rotary_base=100' \
    'activation=gelu smoothing=0.2' 'activation=scaled_relu head_size=24' 'activation=relu2' 'activation=tanh'; do
    i=$((i + 1))
    "$scion" train $tiny $options out=run$i > log 2>&1 || fault "$options: $(cat log)"
    same "gpt $options" run$i/step-00000008.safetensors test.txt data=test.txt part=all
done
printf 'Gr\366\337e\0 und Gr\374\337e\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 > bytes.txt
"$scion" train $tiny data=bytes.txt out=bytes > log 2>&1 || fault "bytes: $(cat log)"
same bytes bytes/step-00000008.safetensors bytes.txt part=all

# ---- Images
$python - << 'END'
import numpy as np, struct
r = np.random.default_rng(1)
for stem, n in (("train", 64), ("t10k", 24)):
    open(f"{stem}-images-idx3-ubyte", "wb").write(struct.pack(">4i", 0x803, n, 5, 6) + r.bytes(n * 30))
    open(f"{stem}-labels-idx1-ubyte", "wb").write(struct.pack(">2i", 0x801, n) + bytes(i % 7 for i in range(n)))
END
i=0
for options in '' 'bias=no activation=tanh layers=2' 'smoothing=0.1 activation=relu'; do
    i=$((i + 1))
    "$scion" train model=mlp norms=image data=. data_kind=idx width=12 batch=8 steps=8 lr=2^-5 threads=1 $options out=mlp$i \
        > log 2>&1 || fault "mlp $options: $(cat log)"
    same "mlp $options" mlp$i/step-00000008.safetensors .
done

$python "$root/examples/load_checkpoint.py" run1/best.safetensors > out || fault 'the list of tensors'
holds out 'blocks.1.mlp.down float32 24 96'
[ $faults -eq 0 ]
