#!/bin/sh
# scion info on every kind of file that the program writes or reads, damaged ones, and a run from an exported folder.
#     info.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

text 60 > text.txt
tiny='data=text.txt layers=2 width=32 head_size=16 block=20 batch=4 steps=4 eval_every=4 lr=2^-5 threads=1 log_every=1'
"$scion" train $tiny activation=scaled_relu2 out=run > log 2>&1 || fault "run: $(cat log)"
"$scion" export run out=hf format=hf > log 2>&1 || fault "hf: $(cat log)"
"$scion" export run out=model.gguf format=gguf type=q8_0 > log 2>&1 || fault "gguf: $(cat log)"
"$scion" sweep ${tiny%% lr=*} threads=1 lr=2^-5,2^-6 ledger=sweep.db > log 2>&1 || fault "sweep: $(cat log)"
"$scion" tokenizer train text.txt vocab=600 out=bpe.json > log 2>&1 || fault "tokenizer: $(cat log)"
shard part_train.bin 2000

# PATH KIND EXPRESSION...: info says this kind, and the expressions of its JSON object are true.
is() {
    path=$1 kind=$2
    shift 2
    "$scion" info "$path" > out 2>&1 || fault "info $path: $(cat out)"
    grep -q "^kind  *$kind$" out || fault "info $path: $(cat out)"
    "$scion" info "$path" --json > o.json 2>&1 || fault "info $path --json: $(cat o.json)"
    [ "$(json o.json 'o["kind"]')" = "$kind" ] || fault "$path: kind $(json o.json 'o["kind"]'), expected $kind"
    for expression; do
        [ "$(json o.json "$expression")" = True ] || fault "$path: $expression is $(json o.json "$expression")"
    done
}

is run run 'o["ended"]' 'o["step"] == 4' 'o["model"] == "gpt"' 'o["checkpoint"]["parameters"] == 26560' \
    'o["checkpoint"]["verified"]' 'o["checkpoint"]["settings"]["width"] == "32"' 'o["val_loss"] == o["checkpoint"]["best"]' \
    'o["checkpoint"]["tokenizer"]["tokens"] == 31'
is run/step-00000004.safetensors checkpoint 'o["step"] == 4' 'o["settings"]["activation"] == "scaled_relu2"' \
    'o["parameters"] == 26560' 'len(o["tensors"]) == 30' 'o["vocab"] == 31'
"$scion" info run > out
holds out 'blocks.0-1.attn.q'
is hf 'Hugging Face folder' 'o["class"] == "ApertusForCausalLM"' 'o["config"]["hidden_act"] == "relu2"' \
    'o["weight_files"] == 1' 'o["tokenizer"]["tokenizer"] == "chars"' 'o["tokenizer"]["tokens"] == 31' \
    'o["parameters"] == 26560 + 5 * 32 + 4 * 16'
is hf/config.json 'Hugging Face folder' 'o["config"]["hidden_size"] == 32' '"tensors" not in o'
is hf/model.safetensors safetensors 'o["verified"]' 'len(o["tensors"]) == 23'
is hf/tokenizer.json tokenizer 'o["tokenizer"] == "chars"' 'o["tokens"] == 31'
is model.gguf 'GGUF file' 'o["version"] == 3' 'o["keys"]["general.architecture"] == "apertus"' 'o["keys"]["apertus.block_count"] == 2' \
    'o["keys"]["tokenizer.ggml.tokens"] == {"items": "string", "count": 31}' 'o["keys"]["tokenizer.ggml.add_bos_token"] is False' \
    '{t["type"] for t in o["tensors"]} == {"F32", "Q8_0"}' 'o["tensors"][0] == {"name": "token_embd.weight", "shape": [31, 32], "type": "Q8_0"}'
is sweep.db ledger 'o["runs"] == 2' 'o["done"] == 2' 'o["best_loss"] > 0' 'o["best"]["width"] == "32"'
is bpe.json tokenizer 'o["tokenizer"] == "bpe"' 'o["tokens"] < 600' 'o["separator"] == "<|endoftext|>"'
is part_train.bin 'token shard' 'o["tokens"] == 2000' 'o["token_bytes"] == 2'
is text.txt data 'o["data_kind"] == "text"' 'o["train_tokens"] + o["validation_tokens"] == o["bytes"]' 'o["symbols"] == 31'
mkdir books && cp text.txt books/a.txt && cp text.txt books/b.txt
is books data 'o["data_kind"] == "text"'

# ---- Nothing is changed
cp sweep.db before.db
"$scion" info sweep.db > out 2>&1
cmp -s sweep.db before.db || fault 'info changed a ledger'

# ---- Damage, and files that are not there
refused 2 'name a file or folder' info
refused 1 'missing' info missing
: > empty
refused 1 'empty' info empty
head -c 1000 model.gguf > cut.gguf
refused 1 'cut.gguf: key-value pair' info cut.gguf
size=$(wc -c < model.gguf)
head -c $((size - 100)) model.gguf > cut.gguf
refused 1 'beyond the end of the file, which may be truncated' info cut.gguf
printf 'GGUF\001\000\000\000aaaaaaaaaaaaaaaaaaaaaaaa' > old.gguf
refused 1 'GGUF version 1; versions 2 and 3 are read' info old.gguf
printf 'text' > no.gguf
refused 1 'not a GGUF file' info no.gguf
head -c 2000 run/step-00000004.safetensors > cut.safetensors
refused 1 'cut.safetensors' info cut.safetensors
head -c 3000 part_train.bin > cut.bin
refused 1 'its header says 2000 tokens, but the file holds 988' info cut.bin
mkdir bad
echo '{"architectures": ["ApertusForCausalLM"], ' > bad/config.json
refused 1 'config.json: is not valid JSON: line' info bad
echo '{}' > bad/config.json
refused 1 'has neither model.safetensors nor model.safetensors.index.json' info bad
head -c 5000 sweep.db > cut.db
refused 1 'cut.db' info cut.db
echo '{"model": 3}' > bad.json
refused 1 'bad.json' info bad.json

# ---- A run from the folder
"$scion" train init=hf data=text.txt rule=adamw lr=0.001 steps=2 batch=4 threads=1 out=tuned > out 2>&1 || fault "init=hf: $(cat out)"
holds out 'init: weights of hf, a folder of transformers'
holds out 'init: rule adamw'
[ "$(json tuned/summary.json 'o["config"]["activation"]')" = scaled_relu2 ] || fault 'init=hf: activation'
"$scion" train shakespeare init=hf data=text.txt $tiny activation=scaled_relu2 steps=1 lr=0.001 out=preset > out 2>&1 || fault "preset: $(cat out)"
holds out 'init: optimizer and lr of preset shakespeare and of the command line, not of hf'
refused 1 'has its own tokenizer, of 31 tokens: leave tokenizer out' train init=hf data=text.txt tokenizer=bytes steps=1 lr=0.001 out=new
refused 1 'width=32' train init=hf data=text.txt width=64 steps=1 lr=0.001 out=new
sed 's/"relu2"/"silu"/' hf/config.json > config.json && cp -r hf other && mv config.json other/config.json
refused 2 'hidden_act is "silu"; expected relu2, gelu, relu or tanh' train init=other data=text.txt steps=1 lr=0.001 out=new
[ ! -e new ] || fault 'a refused run left a folder'

[ $faults -eq 0 ]
