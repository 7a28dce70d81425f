#!/bin/sh
# What is learned from and what is measured: eval's part, file and number of tokens, texts for validation, kinds that do
# not go together, validations of a part, shards that shrink under way.
#     data.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

tiny='layers=1 width=16 head_size=8 block=16 batch=4 threads=1 log_every=0'
text 200 > text.txt
text 100 > test.txt

# ---- eval names what it measures
"$scion" train shakespeare data=text.txt $tiny steps=3 out=run > out 2>&1 || fault "train: $(cat out)"
"$scion" eval run data=test.txt > out 2>&1 || fault "eval: $(cat out)"
holds out 'data: test.txt, the last 10 %; 288 of its 289 tokens'
"$scion" eval run data=test.txt part=all > out 2>&1 || fault "part=all: $(cat out)"
holds out 'data: test.txt, all of it; 2880 of its 2890 tokens'
"$scion" eval run data=test.txt part=all --json > json 2> log || fault "--json: $(cat log)"
holds json '"part": "test.txt, all of it", "tokens": 2880, "tokens_of_part": 2890, "skipped": 0, "loss": '
[ "$(wc -l < json)" -eq 1 ] || fault "--json: $(cat json)"
"$scion" eval run data=test.txt part=all --quiet > quiet || fault '--quiet'
grep -qx '[0-9.]*' quiet || fault "--quiet: $(cat quiet)"
gzip -c test.txt > test.txt.gz
"$scion" eval run data=test.txt.gz part=all --quiet > packed || fault 'gzip'
cmp -s quiet packed || fault "gzip: $(cat packed), plain: $(cat quiet)"
refused 2 'expected val or all' eval run part=some

# ---- Unknown characters: refused with their place, or left out and counted
{ echo 'ÄÖ'; cat test.txt; } > umlauts.txt
refused 1 'flip applies to images; data of kind text are not images' train shakespeare data=text.txt $tiny steps=3 flip=random out=no
refused 1 'crop_min applies to images; data of kind text are not images' train shakespeare data=text.txt $tiny steps=3 crop_min=0.5 out=no
refused 1 'mixup applies to images; data of kind synthetic are not images' train shakespeare data_kind=synthetic $tiny steps=3 mixup=0.5 out=no
refused 1 'line 1: the character "Ä" (U+00C4) is not in the vocabulary' eval run data=umlauts.txt
"$scion" eval run data=umlauts.txt skip_unknown=yes > out 2>&1 || fault "skip_unknown: $(cat out)"
holds out 'skipped: 2 characters'

# ---- Nothing is left to learn from
printf 'ZZZZZZZZZZZZZZZZ%.0s' 1 2 3 4 5 6 7 8 9 > foreign.txt
refused 1 'the data have no tokens to train on' resume run data=foreign.txt skip_unknown=yes steps=9
refused 1 'the data have no tokens to train on' train init=run data=foreign.txt skip_unknown=yes steps=4 out=none

# ---- val_data: a text of its own; one that is missing is told before training
"$scion" train shakespeare data=text.txt val_data=test.txt $tiny steps=1 out=two > out 2>&1 || fault "val_data: $(cat out)"
holds out 'test.txt, 2890 for validation'
"$scion" eval two > out 2>&1
holds out 'data: test.txt; 2880 of its 2890 tokens'
"$scion" eval two part=all > out 2>&1
holds out 'data: text.txt, all of it; 5888 of its 5890 tokens'
"$scion" eval two data=text.txt > out 2>&1
holds out 'data: text.txt, the last 10 %;'
refused 1 'absent.txt: cannot open' train shakespeare data=text.txt val_data=absent.txt $tiny steps=1 out=none
[ ! -e none ] || fault 'a run without its data left a folder'

# ---- A part of the validation part is said to be one
"$scion" train shakespeare data=text.txt $tiny steps=1 eval_tokens=160 eval_end=320 out=part > out 2>&1
holds out 'validation: measures 160 of 576 tokens, spread over them; eval_tokens=0'
holds out 'validation: the last one measures 320 tokens'
holds out ' on 320 tokens'

# ---- A limit on the command line wins over those of the run and of the preset
"$scion" train shakespeare data=text.txt $tiny steps=1 eval_batches=2 eval_end=320 out=part2 > out 2>&1
for run in part part2; do
    for try in 'eval_tokens=160 160' 'eval_tokens=480 480' 'eval_batches=1 64' 'eval_end=96 128' 'threads=1 320' \
        'eval_tokens=160 eval_batches=0 eval_end=0 160' 'eval_tokens=0 eval_batches=1 64'; do
        "$scion" eval $run ${try% *} --json > out 2>&1 || fault "eval $try: $(cat out)"
        [ "$(json out 'o["tokens"]')" = "${try##* }" ] || fault "eval $run $try: $(cat out)"
    done
done
refused 1 'both limit' eval part eval_tokens=160 eval_end=320
refused 2 'eval_tokens and eval_batches both limit a validation' train shakespeare data=text.txt eval_tokens=160 eval_batches=1
printf 'preset = shakespeare\neval_batches = 3\neval_end = 10m\n' > long.ini
text 60000 > long.txt
"$scion" train long.ini data=long.txt val_fraction=0.5 $tiny steps=1 eval_tokens=160 out=short > out 2>&1 || fault "short: $(cat out)"
holds out ' on 160 tokens'
"$scion" train long.ini data=long.txt val_fraction=0.9 $tiny steps=1 out=capped > out 2>&1 || fault "capped: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line "validation: the preset's 10000000 tokens for the last one are more than this run trains on; eval_end=10000000"
holds one_line ' on 262144 tokens'

# ---- Kinds that do not go together
shard sh.bin 4000
shard sh_val.bin 400
"$scion" train data=sh.bin val_data=sh_val.bin vocab=100 $tiny steps=2 lr=0.01 out=tokens > out 2>&1 || fault "shards: $(cat out)"
refused 1 'data of kind text, but the model learned from kind tokens' eval tokens data=text.txt
refused 1 'data of kind text, but the model learned from kind tokens' resume tokens data=text.txt val_data= steps=4
"$scion" train data=text.txt $tiny steps=2 lr=0.01 out=auto > out 2>&1 || fault "auto: $(cat out)"
refused 1 'sh.bin: token shards without their tokenizer, but the model learned from a text' eval auto data=sh.bin
"$scion" eval tokens data=sh_val.bin part=all > out 2>&1 || fault "part=all of shards: $(cat out)"
holds out 'data: sh_val.bin, all of it; 384 of its 400 tokens'
refused 1 'part=all measures all data' eval tokens data=sh.bin

# ---- A shard that is cut off under way: a sentence, and the last checkpoint stays
shard cut.bin 40000
"$scion" train data=cut.bin vocab=100 $tiny steps=200000 save_every=50 lr=0.01 out=cut > out 2> log &
run=$!
waited=0
until ls cut/step-*.safetensors > ls.out 2>&1 || ! kill -0 $run 2> /dev/null || [ $waited -gt 600 ]; do sleep 0.1; waited=$((waited + 1)); done
truncate -s 2000 cut.bin
wait $run
status=$?
[ $status -eq 1 ] || fault "a shard that shrinks: exit status $status"
holds log 'cut.bin: it ends before byte'
holds log 'the last checkpoint is cut/step-'
shard cut.bin 40000
"$scion" resume cut max_minutes=0.001 > out 2>&1 || fault "resume after the shard came back: $(cat out)"

# ---- Presets of shards without shards
refused 1 'scion train --help says how to get token shards' train nanogpt-124m
# ---- A loss that is not finite is not a result
"$scion" train model=mlp data_kind=synthetic layers=9 width=32 norms=sign rule=uscion lr=1e6 radius_hidden=1e4 \
    activation=scaled_relu2 boundary_init=no steps=1 batch=4 threads=1 out=huge > log 2>&1 || fault "huge: $(cat log)"
refused 1 'huge/step-00000001.safetensors: the loss is not a number' eval huge
refused 1 'huge/step-00000001.safetensors: the loss is not a number' eval huge --json
[ $faults -eq 0 ]
