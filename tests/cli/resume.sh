#!/bin/sh
# Runs that begin where others ended: resumed to more steps, resumed with other step sizes, begun from the weights of
# another run. Each says what it does.
#     resume.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
text 1500 > text.txt
text 800 > other.txt
tiny='width=32 head_size=16 layers=1 block=32 batch=4 threads=1 eval_batches=2'
# shellcheck disable=SC2086
"$scion" train shakespeare data=text.txt $tiny steps=20 log_every=5 out=run > out 2>&1 || fault "train: $(cat out)"

# FILE STEP: the learning rate of a step.
rate() {
    json "$1/metrics.jsonl" "[line['lr'] for line in o if line['step'] == $2 and 'lr' in line]"
}

# ---- To more steps: what becomes of lr is said, and is so
cp -r run more
"$scion" resume more steps=40 > out 2>&1 || fault "steps=40: $(cat out)"
holds out 'steps: 40, were 20; the schedule linear now spans all of them'
[ "$(rate more 25)" = 0.0125 ] || fault "lr of step 25 is 2^-5 (1 - 24/40) = 0.0125, not $(rate more 25)"
"$scion" resume more > out 2>&1
holds out 'already complete'

# ---- Other step sizes: only when asked for, and then it is no longer the same run
cp -r run changed
refused 1 'lr=0.01: cannot be changed when a run is resumed; --force changes it' resume changed steps=40 lr=0.01
refused 1 'init=' resume changed steps=40 seed=3 --force
"$scion" resume changed steps=40 lr=0.01 schedule=constant --force > out 2>&1 || fault "--force: $(cat out)"
tr -s '\n ' ' ' < out > one_line # lines are filled
holds one_line 'not the same run any more: after step 20: lr 0.03125 -> 0.01'
[ "$(rate changed 40)" = 0.01 ] || fault "--force: lr of step 40 is $(rate changed 40)"
holds changed/summary.json 'after step 20: lr 0.03125 -> 0.01'

# ---- From the weights of another run: its model, a schedule of its own, and losses that are not a beginner's
"$scion" train init=run data=other.txt steps=10 log_every=1 threads=1 eval_batches=2 out=tuned > out 2>&1 || fault "init: $(cat out)"
holds tuned/summary.json '"init":"run"'
holds tuned/summary.json '"width":32'
# FOLDER: the loss of its first step.
first() {
    json "$1/metrics.jsonl" '[line["loss"] for line in o if line["step"] == 1 and "loss" in line]'
}
awk -v a="$(first tuned)" -v b="$(first run)" 'BEGIN { exit !(a > 0 && a < b - 0.5) }' ||
    fault "init=run begins at a loss of $(first tuned), a new run at $(first run)"
refused 2 'nothing' train init=nothing data=text.txt

# ---- Fine-tuning takes the optimizer of the run and a tenth of its lr, says so, and makes the model better
"$scion" train shakespeare data=text.txt $tiny rule=adamw lr=2^-7 beta2=0.9 steps=60 out=adam > out 2>&1 || fault "adamw: $(cat out)"
"$scion" train init=adam data=other.txt batch=4 steps=30 threads=1 eval_tokens=0 out=fine > out 2>&1 || fault "fine: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line 'init: rule adamw, its norms, radii and other settings as in adam init: lr 0.00078125, a tenth of the peak in adam (0.0078125)'
holds fine/summary.json '"rule":"adamw"'
holds fine/summary.json '"beta2":0.9,'
loss() {
    "$scion" eval "$1" data=other.txt eval_tokens=0 threads=1 --quiet
}
awk -v a="$(loss fine)" -v b="$(loss adam)" 'BEGIN { exit !(a > 0 && a < b) }' ||
    fault "fine-tuning went from $(loss adam) to $(loss fine)"
"$scion" train init=adam data=other.txt batch=4 steps=1 lr=0.001 beta2=0.8 eval_batches=1 out=given > out 2>&1 || fault "given: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line 'as in adam; as given: beta2 init: lr 0.001 as given; adam had 0.0078125 at its peak'
"$scion" train shakespeare init=adam data=other.txt $tiny steps=1 out=preset > out 2>&1 || fault "preset: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line 'init: optimizer and lr of preset shakespeare and of the command line, not of adam'
holds preset/summary.json '"rule":"scion"'
refused 2 'adam was trained by rule adamw, whose lr is not that of rule scion: say lr=N as well' \
    train init=adam data=other.txt steps=1 rule=scion
[ $faults -eq 0 ]
