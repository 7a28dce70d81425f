#!/bin/sh
# scion sample: where the prompt comes from, several texts, where they end, JSON.
#     sample.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
text 1500 > text.txt
"$scion" train shakespeare data=text.txt width=32 head_size=16 layers=1 block=32 batch=8 steps=60 eval_batches=2 threads=1 \
    out=run --quiet || fault "train: $?"

# ---- A prompt is the same from everywhere
printf 'the quick' > prompt.txt
"$scion" sample run prompt='the quick' tokens=60 > a || fault "prompt: $?"
"$scion" sample run prompt_file=prompt.txt tokens=60 > b || fault "prompt_file: $?"
"$scion" sample run prompt=- tokens=60 < prompt.txt > c || fault "prompt=-: $?"
"$scion" sample run prompt_file=- tokens=60 < prompt.txt > d || fault "prompt_file=-: $?"
for other in b c d; do cmp -s a $other || fault "another text with another way to give the prompt: $(cat a $other)"; done
"$scion" sample run prompt='the quick' tokens=60 --quiet > f
[ "$(cat a)" = "the quick$(cat f)" ] || fault "--quiet is the text without the prompt: $(cat f)"
refused 2 "did you mean prompt='the quick'?" sample run the quick
"$scion" sample run prompt='the quick' tokens=60 compute=bf16 threads=1 > half || fault "compute=bf16: $?"
"$scion" sample run prompt='the quick' tokens=60 compute=bf16 threads=2 | cmp -s half - || fault 'compute=bf16: threads'
refused 2 'not both' sample run prompt=a prompt_file=prompt.txt
refused 1 'absent: cannot open' sample run prompt_file=absent
refused 1 'cannot be read: Is a directory' sample run prompt_file=run
printf 'a\000b' > zero
refused 1 'zero byte' sample run prompt_file=zero
: > empty.txt
refused 1 'the prompt is empty' sample run prompt_file=empty.txt
"$scion" sample run prompt=- tokens=5 < /dev/null > out 2>&1 && fault 'an empty standard input'
holds out 'the prompt is empty'

# ---- Several texts: those of the seeds one by one
for seed in 4 5 6; do
    [ $seed -eq 4 ] || echo
    echo "--- seed $seed"
    "$scion" sample run prompt='the ' tokens=30 seed=$seed
done > want
"$scion" sample run prompt='the ' tokens=30 seed=4 samples=3 > got || fault "samples: $?"
cmp -s want got || fault "samples=3: $(cat got), expected $(cat want)"
refused 2 'samples=0' sample run samples=0

# ---- A text ends before the stop text, wherever that is cut into tokens
"$scion" sample run prompt='the ' tokens=200 --quiet > whole
for stop in 'o' 'fox' 'brown fox ju' 'not there'; do
    "$scion" sample run prompt='the ' tokens=200 stop="$stop" --quiet > got || fault "stop: $?"
    awk -v stop="$stop" 'BEGIN { RS = "\001" } { at = index($0, stop); printf "%s", at ? substr($0, 1, at - 1) "\n" : $0 }' \
        whole > want
    cmp -s want got || fault "stop='$stop': '$(cat got)', expected '$(cat want)'"
done
refused 2 'stop is empty' sample run stop=
# the first of several
"$scion" sample run prompt='the ' tokens=200 stop='["not there", "ump", "fox"]' --quiet > got || fault "stops: $?"
awk 'BEGIN { RS = "\001" } { n = length($0); split("ump fox", s, " ")
    for (i in s) if ((at = index($0, s[i])) && at - 1 < n) n = at - 1
    printf "%s", n < length($0) ? substr($0, 1, n) "\n" : $0 }' whole > want
cmp -s want got || fault "several stops: '$(cat got)', expected '$(cat want)'"
refused 2 'expected a list of texts' sample run stop='["a", 1]'
refused 2 'stop is empty' sample run stop='["a", ""]'

# ---- The same texts however many are written at once, and by however many threads
"$scion" sample run prompt='the ' tokens=60 samples=11 texts_at_once=1 threads=1 > want || fault "one at a time: $?"
for at_once in 2 8 11 50; do
    "$scion" sample run prompt='the ' tokens=60 samples=11 texts_at_once=$at_once threads=2 > got || fault "$at_once: $?"
    cmp -s want got || fault "texts_at_once=$at_once: $(cat got), expected $(cat want)"
done
refused 2 'texts_at_once=0' sample run texts_at_once=0

# ---- Several prompts: the texts of each one
printf 'the quick\n\nfox jum\nbrown' > lines.txt
for prompt in 'the quick' 'fox jum' brown; do
    "$scion" sample run prompt="$prompt" tokens=40 seed=3 samples=2 --json | head -2
done > want
"$scion" sample run prompts=lines.txt tokens=40 seed=3 samples=2 --json > got || fault "prompts: $?"
head -6 got | cmp -s want - || fault "prompts: $(cat got), expected $(cat want)"
"$scion" sample run prompts=- tokens=40 seed=3 samples=2 --json < lines.txt | head -6 | cmp -s want - || fault 'prompts=-'
"$scion" sample run prompts=lines.txt tokens=5 > got || fault "prompts: $?"
holds got '--- prompt 3, seed 1'
refused 2 'not both' sample run prompts=lines.txt prompt=a
refused 1 'holds no prompt' sample run prompts=empty.txt

# ---- A prompt longer than the context, as the model trained (block=32)
"$scion" sample run prompt="$(cat whole)" tokens=40 temperature=0 --quiet > got || fault "a long prompt: $?"
[ "$(wc -c < got)" -eq 41 ] || fault "a long prompt: $(cat got)"

# ---- Ways to draw: the likeliest of one, whichever way only one is left
"$scion" sample run prompt='the ' tokens=40 temperature=0 --quiet > want
for how in top_k=1 top_p=0 min_p=1; do
    "$scion" sample run prompt='the ' tokens=40 seed=9 $how --quiet > got || fault "$how: $?"
    cmp -s want got || fault "$how: $(cat got), expected $(cat want)"
done
"$scion" sample run prompt='the ' tokens=40 temperature=0 repetition_penalty=5 --quiet > got || fault "penalty: $?"
cmp -s want got && fault 'repetition_penalty=5 changes nothing'
refused 2 'min_p=2: expected' sample run min_p=2
refused 2 'repetition_penalty=0: expected' sample run repetition_penalty=0
refused 2 'repeat_penalty is called repetition_penalty here' sample run repeat_penalty=1.1

# ---- JSON: a line for each text, and one about them all
"$scion" sample run prompt='the ' tokens=40 seed=2 samples=2 stop=fox --json > got || fault "--json: $?"
[ "$(wc -l < got)" -eq 3 ] || fault "--json: $(cat got)"
"$scion" sample run prompt='the ' tokens=40 seed=3 stop=fox --quiet > want
said=$(json got 'o[1]["text"]')
[ "$said" = "$(cat want)" ] || fault "--json: $said, expected $(cat want)"
[ "$(json got 'o[0]["seed"] == 2 and o[0]["prompt"] == "the " and o[0]["end"] in ("stop", "tokens")')" = True ] ||
    fault "--json: $(cat got)"
[ "$(json got 'o[2]["samples"] == 2 and o[2]["step"] == 60 and o[2]["checkpoint"] == "run/best.safetensors"')" = True ] ||
    fault "--json: $(cat got)"

# ---- A text of bytes: each becomes the character of its number
printf 'caf\351 caf\351 caf\351 na\357ve\n%.0s' $(seq 200) > bytes.txt
"$scion" train shakespeare data=bytes.txt width=16 head_size=16 layers=1 block=16 batch=4 steps=40 eval_batches=1 threads=1 \
    out=bytes --quiet 2> log || fault "bytes: $(cat log)"
"$scion" sample bytes tokens=60 temperature=0 --json > got || fault "bytes: $?"
holds got "$(printf '\303\251')"
# ---- Weights so large that the logits are not finite: a sentence, not a text
"$SCION_SPOIL" "$(ls run/step-*.safetensors | tail -n 1)" head spoilt.safetensors || fault 'no checkpoint of large weights'
refused 1 'not finite' sample spoilt.safetensors prompt=the tokens=20 --quiet
[ $faults -eq 0 ]
