#!/bin/sh
# Wrong usage: every mistake gets one sentence, the nearest right name, and the right exit status (2 wrong usage, 1
# the run failed); help is everywhere.
#     usage.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
seq 1 3000 > text.txt

# STATUS TEXT ARGUMENT...: the output of scion ARGUMENT... holds TEXT.
expect() {
    want=$1 said=$2
    shift 2
    "$scion" "$@" > out 2>&1
    status=$?
    [ $status -eq "$want" ] || fault "scion $*: exit status $status, expected $want"
    holds out "$said"
}

expect 0 'usage: scion COMMAND' --help
expect 0 'usage: scion COMMAND' help
expect 0 'usage: scion train' help train
expect 0 'candidates=N' help tune
refused 2 'did you mean scion train?' help trian
refused 2 'there is no command frobnicate; scion --help' frobnicate
expect 2 'usage: scion COMMAND'
for command in train resume eval sample sweep tune coordcheck report reproduce bench presets completion version; do
    expect 0 "usage: scion $command" $command --help
    expect 0 "usage: scion $command" $command whatever=1 -h
    grep -q "$command" out || fault "$command --help: no example"
    awk 'length > 80' out | grep . && fault "$command --help: wider than 80 columns"
done
expect 0 'scion 0' version
grep -Eq '^compiler [a-z]+ .*[0-9]' out || fault "version: the compiler has no name: $(cat out)"
expect 0 'usage: scion version' help version
grep -q ' $' out && fault 'help version: a space at the end of a line'
expect 0 '[--force]' help resume
expect 0 '| head' help train
expect 0 'kernels' --version
expect 0 'shakespeare' presets
expect 0 'radius_hidden' presets --options
awk 'length > 80' out | grep . && fault 'presets --options: wider than 80 columns'
expect 0 'width = 128' presets shakespeare

refused 2 'did you mean scion train?' trian
refused 2 'did you mean "shakespeare"?' train shakespere data=text.txt
refused 2 'did you mean "width"?' train shakespeare data=text.txt widht=3
refused 2 'did you mean prompt=TEXT?' sample . --promt x
refused 2 'did you mean prompt=TEXT?' sample . promt=x
refused 2 "did you mean prompt='ROMEO:'?" sample . ROMEO:
refused 2 "did you mean prompt='to be or not'?" sample . to be or not
refused 2 'did you mean --force?' tune shakespeare --forse
refused 2 '--force' tune shakespeare force=yes
refused 2 'has no jobs; scion help version' version jobs=2
refused 2 'n_layer is called layers here' train shakespeare data=text.txt --n_layer=4
refused 2 'n_layer is called layers here' sweep shakespeare data=text.txt n_layer=4
refused 2 'dropout is for model vit, model gpt has none' train shakespeare data=text.txt dropout=0.1
refused 2 'scion presets --options lists them' train shakespeare data=text.txt quux=1
refused 2 'has no --tokens; did you mean tokens=N?' sample . --tokens 5
refused 2 'did you mean top_k=N?' sample . --top-k=5
refused 2 'steps=VALUE' train shakespeare --steps 3
refused 2 'temperature=hot: expected a number from' sample . temperature=hot
refused 2 'one preset at most' train shakespeare mlp
refused 2 'no data to learn from: say data=FILE' train shakespeare
refused 2 'expected 1 to' train shakespeare data=text.txt layers=0
refused 2 'multiple of head_size' train shakespeare data=text.txt width=100
refused 2 'expected one of' train shakespeare data=text.txt rule=lion
refused 2 'takes no arguments' version now
refused 2 'bench train' bench
for command in resume eval sample; do
    refused 2 'folder of a run' $command
    refused 1 'nothing: there is no such run' $command nothing
    mkdir -p empty
    refused 1 'no checkpoint in this folder' $command empty
    refused 1 'text.txt' $command text.txt
done
expect 2 'scion data get shakespeare' train
expect 2 'data=shakespeare' train

# ---- Names of other programs: the command's own argument, or that there is none
refused 2 'max_new_tokens is called tokens here: tokens=N' sample . max_new_tokens=3
refused 2 'max_new_tokens is called tokens here: tokens=N' sample . --max-new-tokens=3
refused 2 'num_samples is called samples here: samples=N' sample . num_samples=3
refused 2 'n is called samples here' sample . n=3
refused 2 'start is called prompt here: prompt=TEXT' sample . start=hello
refused 2 'top_k is called top here: top=N' predict . a.png top_k=3
refused 2 'split is called part here' eval . split=val
refused 2 'batch_size is called batch here' eval . batch_size=3
refused 2 'scion eval has no learning_rate; scion help eval says what it takes' eval . learning_rate=3
refused 2 'scion sample has no quux; scion help sample says what it takes' sample . quux=1
refused 2 'scion resume has no stpes; did you mean steps=VALUE?' resume . stpes=1
refused 2 'name the folder or file to write' export r1
refused 2 'scion export RUN writes a trained model' convert
refused 2 'scion data tokenize makes token shards of texts' tokenize text.txt
refused 2 'scion tokenizer encodes and decodes texts' encode text.txt
refused 2 'scion train init=RUN data=FILE fine-tunes a run' finetune r1
refused 2 'tensorboard=DIR writes' train shakespeare data=text.txt wandb_project=1

refused 1 'absent.txt' train shakespeare data=absent.txt
[ -e runs ] && fault 'absent data' 'left a folder behind'
refused 1 'too small' train shakespeare data=text.txt block=100000
refused 1 'this machine has' train shakespeare data=text.txt width=512k
refused 1 'cannot make this folder' train shakespeare data=text.txt steps=1 width=32 head_size=16 out=text.txt/run
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 555 locked
    refused 1 'locked' train shakespeare data=text.txt steps=1 width=32 head_size=16 out=locked/run
fi
if [ -w /dev/full ]; then
    "$scion" presets > /dev/full 2> out
    [ $? -eq 1 ] || fault 'presets > /dev/full' 'should fail'
fi
[ $faults -eq 0 ]
