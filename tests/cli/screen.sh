#!/bin/sh
# What people see: 80 columns everywhere, losses on standard output, a live line and colours in terminals alone.
#     screen.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
text 1500 > text.txt
tiny='head_size=16 block=32 batch=8 threads=1'
unset NO_COLOR

# NAME: no line of the file `shown` is wider than a terminal.
narrow() {
    LC_ALL=C.UTF-8 awk -v name="$1" 'length > 80 { print "FAIL " name ": " length " columns: " $0; bad = 1 } END { exit bad }' \
        shown || faults=$((faults + 1))
}

# ---- Help and lists
"$scion" --help > shown
narrow '--help'
"$scion" train > shown 2>&1
narrow 'train without arguments'
for command in train resume eval sample sweep tune coordcheck report reproduce bench presets version; do
    "$scion" $command --help > shown || fault "$command --help: $?"
    narrow "$command --help"
done
"$scion" presets > shown
narrow presets
"$scion" presets --options > shown
narrow 'presets --options'
holds shown 'scaled_relu2'

# ---- A run: alike parameters of blocks share a row; everything is on standard output
"$scion" train shakespeare data=text.txt $tiny width=32 layers=12 steps=40 log_every=10 eval_every=20 eval_batches=2 norm_every=20 \
    out=run > shown 2> warned || fault "train: $?"
narrow train
holds shown 'blocks.0-11.attn.q '
[ "$(grep -c '^blocks' shown)" -eq 6 ] || fault "12 equal blocks have 6 parameters: $(grep ^blocks shown)"
elements=$(awk '/^(embedding|blocks|head)/ { sum += $NF } /^in all/ { print sum - $NF }' shown)
[ "$elements" = 0 ] || fault "the rows do not add up: $elements"
holds shown 'step 40/40  loss '
holds shown 'step 40  validation loss '
holds shown ', 1 thread, '
[ -s warned ] && fault "nothing to warn of: $(cat warned)"
grep -q "$(printf '\033')" shown && fault 'escape sequences in a pipe'
grep '^step 10/40  loss' shown | grep -qE 'loss [0-9.]+  lr [0-9.e-]+  [0-9]+ tokens/s  [0-9a-z.]+ left$' ||
    fault "a step's line: $(grep '^step 10' shown)"
"$scion" train nanogpt-3b data_kind=synthetic vocab=50304 steps=1 width=64 head_size=16 batch=1 accum=1 block=16 decay=1 \
    eval_end=16 out=deep > shown 2>&1 || fault "train: $(tail -n 1 shown)"
holds shown 'blocks.0-35.mlp.down'
narrow 'train, 36 layers'
"$scion" train model=mlp norms=image data_kind=synthetic width=32 layers=5 steps=2 out=mlp > shown 2>&1 || fault 'mlp'
narrow 'train, mlp'
"$scion" coordcheck shakespeare $tiny layers=1 width=16..96:16 > shown 2>&1 || fault "coordcheck: $(tail -n 1 shown)"
narrow coordcheck
"$scion" bench train shakespeare $tiny width=32 layers=1 vocab=64 steps=2 > shown 2>&1 || fault "bench: $(tail -n 1 shown)"
narrow bench
holds shown ' 1 thread, '
"$scion" eval run > shown 2>&1 || fault "eval: $(tail -n 1 shown)"
narrow eval
"$scion" reproduce input-radius seeds=2 threads=1 > shown 2>&1 || fault "reproduce: $(tail -n 1 shown)"
narrow reproduce
"$scion" sweep shakespeare data=text.txt $tiny layers=1 steps=3 eval_batches=1 lr=2^-6..2^-5 width=16,32 > shown 2>&1 ||
    fault "sweep: $(tail -n 1 shown)"
narrow sweep
"$scion" sweep show sweeps/shakespeare.db > shown 2>&1
narrow 'sweep show'

"$scion" tune shakespeare data=text.txt $tiny layers=1 steps=9 eval_batches=1 width=64 proxy=32 candidates=3 > shown 2>&1 ||
    fault "tune: $(tail -n 1 shown)"
narrow tune

# ---- --json: the lines of metrics.jsonl and a summary, and nothing else; --quiet: nothing
# KEY: its value in the summary, the last line of `shown`, or in its settings.
key() {
    json shown "{**o[-1]['config'], **o[-1]}['$1']"
}
"$scion" train shakespeare data=text.txt $tiny width=32 layers=1 steps=20 log_every=10 eval_every=10 eval_batches=2 \
    norm_every=20 out=json --json > shown 2> warned || fault "train --json: $?"
sed '$d' shown | cmp -s - json/metrics.jsonl || fault "--json prints other lines than metrics.jsonl: $(cat shown)"
[ "$(key state)" = done ] && [ "$(key steps)" = 20 ] && [ "$(key layers)" = 1 ] && [ "$(key light)" = False ] ||
    fault "--json: the summary is $(tail -n 1 shown)"
[ "$(json shown 'sum(l["time"][:2] == "20" and l["elapsed"] > 0 and l["tokens"] > 0 for l in o if "time" in l)')" -eq 5 ] ||
    fault "time, elapsed and tokens: $(cat shown)"
[ -s warned ] && fault "--json: standard error has $(cat warned)"
"$scion" resume json steps=30 --quiet > shown 2>&1 || fault "resume --quiet: $?"
[ -s shown ] && fault "--quiet: $(cat shown)"
"$scion" resume json steps=40 --json > shown 2>&1 || fault "resume --json: $?"
[ "$(key steps)" = 40 ] || fault "resume --json: $(cat shown)"
json json/metrics.jsonl '[line["elapsed"] for line in o if "elapsed" in line]' > seconds
sort -n -c seconds || fault "elapsed seconds go back where a run was resumed: $(cat seconds)"
"$scion" train shakespeare data=absent.txt --quiet > shown 2> warned && fault '--quiet: absent data'
[ -s shown ] && fault "an error on standard output: $(cat shown)"
holds warned 'absent.txt'

# ---- log_every=0 logs no steps
"$scion" train shakespeare data=text.txt $tiny width=32 layers=1 steps=5 log_every=0 eval_batches=1 out=none > shown 2>&1 ||
    fault 'log_every=0'
grep -q 'loss.*left' shown && fault "log_every=0: $(cat shown)"
[ "$(json none/metrics.jsonl 'any("loss" in line for line in o)')" = False ] || fault "log_every=0: $(cat none/metrics.jsonl)"
holds none/metrics.jsonl '"val_loss"'

# ---- What cannot be trained is refused before anything is printed or made
refused 2 'lr=2, expected at most 1: rule scion multiplies weights by 1 - lr' train shakespeare data=text.txt lr=2
refused 2 'lr=20 times weight_decay=0.1 is more than 1' train shakespeare data=text.txt rule=adamw lr=20 weight_decay=0.1
[ -e runs ] && fault "refused runs left $(ls -R runs)"
# In the first step as well: the folder goes away again, but not one that was there, nor what is in it.
huge='rule=muon lr=30 weight_decay=1'
for out in new old full; do
    [ $out = new ] || mkdir $out
    [ $out != full ] || echo mine > $out/file
    # shellcheck disable=SC2086
    "$scion" train shakespeare data=text.txt $tiny width=32 layers=1 $huge steps=5 out=$out > shown 2>&1 &&
        fault "a run that cannot step: $(cat shown)"
    [ -e $out ] && ls $out
done > left
[ "$(tr '\n' ' ' < left)" = 'metrics.jsonl file metrics.jsonl ' ] || fault "runs that failed in their first step left: $(cat left)"

# ---- Metrics that cannot be written are told at once, and at the end
{
    (ulimit -f 150; exec "$scion" train model=mlp norms=image data_kind=synthetic width=8 layers=2 batch=8 steps=800 \
        log_every=1 keep=0 save_every=0 out=small)
    echo $? > status
} 2>&1 | cat > shown
[ "$(cat status)" -eq 1 ] || fault "metrics that cannot be written: exit status $(cat status)"
holds shown 'scion: warning: small/metrics.jsonl: cannot be written'
[ "$(grep -c 'scion: warning: small/metrics.jsonl' shown)" -eq 1 ] || fault "a warning once: $(cat shown)"
tail -n 1 shown | grep -q 'warning' && fault "metrics that cannot be written are told at the end alone: $(cat shown)"

# ---- In a terminal: a live line; steps of the log and validations stay; colours, unless they are not wanted
# ENVIRONMENT OUT: the screen of a run, as it was written.
terminal() {
    script -qec "env $1 $scion train shakespeare data=text.txt $tiny width=32 layers=1 steps=400 log_every=200 eval_every=200 eval_batches=2 out=$2" \
        /dev/null < /dev/null > shown 2>&1 || fault "train in a terminal: $(tail -n 1 shown)"
    sed 's/\r$//; s/.*\r//' shown | grep -q 'step 200/400  loss' || fault "$1: step 200 does not stay: $(cat shown)"
}
bold=$(printf '\033\[1m')
terminal TERM=xterm live
grep -q "${bold}step 200  validation loss" shown || fault "no colour in a terminal: $(grep -a validation shown)"
grep -q "$(printf '\033\\[K')" shown || fault 'no live line in a terminal'
terminal 'TERM=xterm NO_COLOR=1' plain
grep -q "$bold" shown && fault 'NO_COLOR: colours'
grep -q "$(printf '\033\\[K')" shown || fault 'NO_COLOR: no live line'
terminal TERM=dumb dumb
grep -q "$(printf '\033')" shown && fault 'TERM=dumb: escape sequences'

# ---- Ctrl-C in a terminal: the last loss stays in sight
cat > long.sh << END
echo \$\$ > process
exec "$scion" train shakespeare data=text.txt $tiny width=32 layers=1 steps=1000000 log_every=1000000 eval_batches=1 out=long
END
: > shown # of the program before, until this one runs
script -qec 'env TERM=xterm sh long.sh' /dev/null > shown 2>&1 < /dev/null &
tries=0
while ! tr '\r' '\n' < shown | grep -q 'step *[1-9][0-9]*/1000000  loss' && [ $tries -lt 300 ]; do sleep 0.05; tries=$((tries + 1)); done
sleep 0.3
kill -INT "$(cat process)"
wait $!
step=$(sed -n 's/.*stopped after step \([0-9]*\) of .*/\1/p' shown)
tr '\r' '\n' < shown | tail -n 8 | grep -q "step *$step/1000000  loss [0-9]" || fault "Ctrl-C: the last loss is gone: $(tail -n 4 shown)"
holds shown 'resume with: scion resume long'
# ---- Foreign text: names of files, settings of a checkpoint, arguments. Nothing in it acts on the terminal, and a message
# stays on its line.
evil=$(printf 'a\nb\033[31mc\007d\re\302\233f\377') seen='a?b?[31mc?d?e??f?'
# ARGUMENT...: scion shows them so, whatever it says about them.
harmless() {
    "$scion" "$@" > shown 2>&1
    LC_ALL=C tr -d '\n\040-\176' < shown | grep -q . && fault "scion $1 $2: not printable: $(cat -v shown)"
    holds shown "$seen"
}
harmless "$evil"
harmless help "$evil"
harmless train "$evil"
harmless train "$evil.ini"
harmless train shakespeare "$evil=1"
harmless train shakespeare data=text.txt "rule=$evil"
harmless sample "$evil"
harmless sample run "tokens=$evil"
harmless sample run "--$evil"
harmless report "$evil"
harmless data get "$evil"
[ "$(grep -c . shown)" -eq 1 ] || fault "a message in several lines: $(cat shown)"
"$scion" train shakespeare data=text.txt $tiny width=32 layers=1 steps=1 eval_batches=1 out=renamed --quiet || fault "train: $?"
mv renamed "$evil"
harmless eval "$evil" threads=1
for i in 1 2 3; do
    for class in a b; do
        mkdir -p images/train/$class
        printf 'P5 1 1 255 x' > "images/train/$class/$i$evil.png"
    done
done
"$scion" train mlp data=images image_size=4 width=16 batch=2 steps=1 out=unread > shown 2>&1 && fault 'images of another kind'
LC_ALL=C tr -d '\n\040-\176' < shown | grep -q . && fault "names of images: $(cat -v shown)"
holds shown "$seen.png"

# ---- A preset shows what its model and data have
"$scion" presets shakespeare > shown
holds shown 'qk_norm = '
grep -qE '^(patch|dirac_init|cutmix|flip) ' shown && fault "settings of other models: $(cat shown)"
"$scion" presets airbench > shown
holds shown 'flip = '
grep -qE '^(patch|qk_norm|skip_unknown) ' shown && fault "settings of other models: $(cat shown)"
[ $faults -eq 0 ]
