#!/bin/sh
# One short run from beginning to end: what it prints and leaves in its folder, eval, sample, bench, checkpoints that
# are damaged.
#     run.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

# A text that can be learned: numbers, and a line of letters between them.
text 1500 > text.txt
tiny='width=32 head_size=16 layers=2 block=32 batch=8'

# ---- A run
"$scion" train shakespeare data=text.txt $tiny steps=60 log_every=10 eval_every=10 save_every=10 norm_every=20 \
    keep=3 out=run > out 2> log || fault "train: $?"
holds out 'parameter '
holds out 'blocks.0-1.mlp.down'
holds out 'memory: weights'
holds out 'the last '
holds out 'scion sample run'
holds out 'step 60/60  loss'
holds out 'all norms within bounds (closest: '
holds out 'step 60  validation loss'
[ -s log ] && fault "nothing was wrong, and standard error has $(cat log)"
cp out shown
[ "$(ls run/step-*.safetensors | wc -l)" -eq 3 ] || fault "keep=3 left $(ls run)"
[ -s run/best.safetensors ] || fault 'no best checkpoint'
ls run | grep -q tmp && fault "temporary files are left: $(ls run)"
holds run/metrics.jsonl '"optimizer_share":'
holds run/metrics.jsonl '"name":"head","norm":'
[ "$(json run/metrics.jsonl 'sum("loss" in line for line in o)')" -eq 7 ] || fault 'metrics: steps 1, 10, 20, ... 60 are 7 lines'
[ "$(json run/metrics.jsonl 'sum("val_loss" in line for line in o)')" -eq 6 ] || fault 'metrics: 6 validations'
holds run/summary.json '"steps": 60'

# ---- A folder that holds a run is not overwritten
"$scion" train shakespeare data=text.txt $tiny steps=1 out=run > again 2>&1
[ $? -eq 1 ] || fault 'train into a run should fail'
holds again 'already holds a run'

# ---- eval says what training said last
"$scion" eval run/step-00000060.safetensors > evaluated 2>&1 || fault "eval: $?"
last=$(sed -n 's/^step 60  validation loss //p' shown)
holds evaluated "validation loss $last"
holds shown ' bits per byte'
"$scion" eval run/step-00000060.safetensors --json > evaluated || fault "eval --json: $?"
[ "$(json evaluated 'round(o["bits_per_byte"], 6)')" = "$(json run/summary.json 'round(o["val_bits_per_byte"], 6)')" ] ||
    fault "eval --json: $(cat evaluated)"
# one byte a character: the loss in bits
[ "$(json evaluated 'abs(o["bits_per_byte"] - o["loss"] / 0.69314718056) < 1e-6')" = True ] || fault "bits per byte: $(cat evaluated)"
"$scion" eval run > evaluated 2>&1 || fault "eval run: $?"
best=$(json run/summary.json '"%.4f" % o["best_val_loss"]')
holds evaluated "validation loss $best"
"$scion" eval run data=absent.txt > out 2>&1 && fault 'eval of absent data'
holds out 'absent.txt: cannot open'
holds out 'data=FILE says where'
"$scion" eval run lr=3 > out 2>&1 && fault 'eval lr=3'
holds out 'lr=3'

# ---- sample: without the text, the same from the same seed, something else from another
mv text.txt hidden.txt
"$scion" sample run tokens=200 seed=5 > a || fault "sample: $?"
"$scion" sample run tokens=200 seed=5 > b
"$scion" sample run tokens=200 seed=6 > c
cmp -s a b || fault 'sample: two texts from one seed'
cmp -s a c && fault 'sample: one text from two seeds'
[ "$(wc -c < a)" -eq 201 ] || fault "sample: $(wc -c < a) bytes for 200 tokens and the end of the line"
"$scion" sample run tokens=1k > a || fault "sample tokens=1k: $?" # numbers as in settings
[ "$(wc -c < a)" -eq 1001 ] || fault "sample: $(wc -c < a) bytes for 1k tokens and the end of the line"
"$scion" sample run tokens=50 temperature=0 seed=1 > a
"$scion" sample run tokens=50 temperature=0 seed=2 > b
"$scion" sample run tokens=50 top_k=1 seed=3 > c
"$scion" sample run tokens=50 top_p=0 seed=4 > d
cmp -s a b || fault 'sample: temperature 0 depends on the seed'
cmp -s a c || fault 'sample: the likeliest one of one is the likeliest'
cmp -s a d || fault 'sample: the likeliest that make up nothing are the likeliest one'
"$scion" sample run prompt='the quick' tokens=40 temperature=0 > a
[ "$(head -c 9 a)" = 'the quick' ] || fault 'sample: the prompt comes first'
"$scion" sample run prompt='THE' > out 2>&1 && fault 'sample: a prompt of unknown characters'
holds out 'T'
"$scion" sample run prompt='' > out 2>&1 && fault 'sample: an empty prompt'
holds out 'empty'
mv hidden.txt text.txt

# ---- Damaged checkpoints
good=run/step-00000060.safetensors
bytes=$(wc -c < $good)
for at in 0 7 100 $((bytes / 2)) $((bytes - 1)); do
    head -c "$at" $good > cut.safetensors
    { head -c "$at" $good; printf '\377'; tail -c +"$((at + 2))" $good; } > flipped.safetensors
    for file in cut flipped; do
        for command in resume eval sample; do
            cmp -s $file.safetensors $good && continue
            "$scion" $command $file.safetensors > out 2>&1
            [ $? -eq 1 ] || fault "$command of a checkpoint $file at $at: exit status"
            [ "$(grep -c . out)" -eq 1 ] || fault "$command of a checkpoint $file at $at: $(cat out)"
            holds out "$file.safetensors"
        done
    done
done
[ -e metrics.jsonl ] && fault 'a damaged checkpoint was trained on'

# ---- A run that breaks down says so and saves nothing bad. Weights of 1e15 are finite, their products are not; and the
# first step of ssd would exceed what a float can hold.
"$scion" train model=mlp data_kind=synthetic width=32 layers=4 steps=9 rule=uscion lr=1e6 radius_hidden=1e9 radius_last=1e9 \
    out=nan > out 2>&1
[ $? -eq 1 ] || fault 'a loss that is not finite: exit status'
holds out 'the loss is not a number; the first result that is not finite is'
"$scion" train shakespeare data=text.txt $tiny steps=9 rule=ssd lr=1e6 radius_first=1e-9 radius_hidden=1e9 radius_last=1e9 \
    zero_init=1 save_every=1 out=nan2 > out 2>&1
[ $? -eq 1 ] || fault 'weights that would not be finite: exit status'
holds out 'blocks.0.attn.o: lr 1e+06 and gradients of up to'
holds out 'nothing was changed'
[ -e nan2/step-00000001.safetensors ] && fault 'a step that was refused was saved'

# ---- No validation part, images, bench
"$scion" train shakespeare data=text.txt $tiny steps=2 val_fraction=0 out=blind > out 2>&1 || fault 'val_fraction=0'
holds out 'no validation'
[ -s blind/step-00000002.safetensors ] || fault 'val_fraction=0: no checkpoint'
"$scion" train model=mlp norms=image data_kind=synthetic width=32 steps=30 out=mlp > out 2>&1 || fault 'mlp'
holds out 'accuracy'
"$scion" sample mlp > out 2>&1 && fault 'sample of an mlp'
holds out 'only a model that learned from a text'
"$scion" bench train $tiny vocab=64 steps=2 --json bench.json > out 2>&1 || fault 'bench'
for key in forward_ms backward_ms optimizer_ms step_ms tokens_per_s share_of_peak peak_bytes; do
    holds bench.json "\"$key\":"
done
holds bench.json '"compute": "float32"'
"$scion" bench train $tiny vocab=64 steps=2 compute=bf16 threads=2 json=bench.json > out 2>&1 || fault 'bench in bf16'
holds bench.json '"compute": "bf16"'
tr '\n' ' ' < out | grep -q 'reach in bfloat16' || fault "the limit is not that of bfloat16: $(cat out)" # lines break anywhere
"$scion" bench sample $tiny vocab=64 json=bench.json > out 2>&1 || fault 'bench sample'
for key in token_ms tokens_per_s share_of_reading read_gbytes_per_s late_share_of_reading texts_speedup \
    prompt_tokens_per_s forward_tokens_per_s; do
    holds bench.json "\"$key\":"
done
"$scion" bench sample model=mlp norms=image > out 2>&1 && fault 'bench sample of an mlp'
holds out 'model=mlp writes no text'
[ $faults -eq 0 ]
