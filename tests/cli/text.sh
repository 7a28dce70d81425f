#!/bin/sh
# Texts with a tokenizer: training, the cache, samples, checkpoints; token shards with and without theirs.
#     text.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
XDG_CACHE_HOME=$dir/cache XDG_DATA_HOME=$dir/home
export XDG_CACHE_HOME XDG_DATA_HOME
tiny='width=16 head_size=8 layers=1 block=16 batch=4 accum=1 steps=4 lr=0.01 eval_batches=2 threads=1'

# A byte pair encoding with the tokens th, the and " the": encoder.json and vocab.bpe as GPT-2 has them.
mkdir tok
python3 - << 'END'
import json
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
letters = {b: chr(b) for b in plain}
letters.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)})
merges = [("t", "h"), ("th", "e"), (letters[32], "the")]
tokens = [letters[b] for b in range(256)] + ["".join(m) for m in merges] + ["<|endoftext|>"]
json.dump({t: i for i, t in enumerate(tokens)}, open("tok/encoder.json", "w"))
open("tok/vocab.bpe", "w").write("#version: 0.2\n" + "".join("%s %s\n" % m for m in merges))
END
mkdir corpus
text 300 > corpus/a.txt
python3 -c 'import json
for i in range(200): print(json.dumps({"body": "%d the quick brown fox jumps over the dog\n" % i}))' | gzip > corpus/b.jsonl.gz

# ---- A folder with JSON Lines, tokenised; the tokens are kept, and the next run has the same losses from the cache
"$scion" train data=corpus field=body tokenizer=tok $tiny out=run > out 2>&1 || fault "tokenizer=tok: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line 'data: corpus, 201 documents, '
holds one_line ' tokens of 260 kinds'
holds one_line ' bits per byte'
[ "$(ls cache/scion/tokens/*.bin | wc -l)" -eq 1 ] || fault "the cache has $(ls cache/scion/tokens)"
for setting in token_cache=yes token_cache=no; do
    rm -rf again
    "$scion" train data=corpus field=body tokenizer=tok $tiny out=again $setting > out 2>&1 || fault "$setting: $(cat out)"
    json run/metrics.jsonl '[x.get("loss", x.get("val_loss")) for x in o]' > a
    json again/metrics.jsonl '[x.get("loss", x.get("val_loss")) for x in o]' > b
    cmp -s a b || fault "$setting: other losses: $(cat b)"
done
[ "$(ls cache/scion/tokens/*.bin | wc -l)" -eq 1 ] || fault "the cache has $(ls cache/scion/tokens)"

# ---- The checkpoint has the tokenizer, as bytes: nothing else is needed
python3 - << 'END' || fault 'the tokenizer in the checkpoint'
import json, struct
with open("run/best.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    start = f.tell()
    about, tensor = header["__metadata__"], header["tokenizer"]
    f.seek(start + tensor["data_offsets"][0])
    saved = json.loads(f.read(tensor["shape"][0]))
assert about["tokenizer"] == "bpe" and about["vocab"] == "260" and "vocabulary" not in about
assert tensor["dtype"] == "U8" and saved["model"]["type"] == "BPE"
END
mv tok away
"$scion" sample run prompt='the quick' tokens=8 > out 2>&1 || fault "sample: $(cat out)"
holds out 'the quick'
"$scion" sample run tokens=30 seed=3 --json > out 2>&1 || fault "sample --json: $(cat out)"
[ "$(json out 'o[1]["samples"]')" = 1 ] || fault "sample --json: $(cat out)"
"$scion" eval run data=corpus/a.txt part=all > out 2>&1 || fault "eval of another text: $(cat out)"
holds out ' bits per byte'
"$scion" resume run steps=6 > out 2>&1 || fault "resume: $(cat out)"
"$scion" train data=corpus/a.txt tokenizer=run $tiny out=other > out 2>&1 || fault "tokenizer=RUN: $(cat out)"
"$scion" train data=corpus/a.txt init=run steps=2 lr=0.01 out=tuned > out 2>&1 || fault "init: $(cat out)"
mv away tok
printf 'the the\n' > the.txt
for t in tok run run/best.safetensors; do # a space and the is one token
    [ "$("$scion" tokenizer encode tokenizer=$t the.txt 2>&1)" = '257 258 10' ] || fault "tokenizer=$t: another encoding"
done
[ "$("$scion" tokenizer encode tokenizer=bytes the.txt 2>&1)" = '116 104 101 32 116 104 101 10' ] || fault 'tokenizer=bytes'
refused 1 'tokenizer gpt2 is not here' tokenizer encode tokenizer=gpt2 the.txt

# ---- A tokenizer that the run learns, and resumes with
"$scion" train data=corpus/a.txt tokenizer=bpe vocab=290 $tiny out=learned > out 2>&1 || fault "tokenizer=bpe: $(cat out)"
holds out 'tokens of 290 kinds'
"$scion" tokenizer info learned > before 2>&1 || fault "info: $(cat before)"
"$scion" resume learned steps=6 > out 2>&1 || fault "resume with tokenizer=bpe: $(cat out)"
"$scion" tokenizer info learned > after 2>&1
cmp -s before after || fault 'resuming changed the tokenizer'
refused 1 'the model has its own tokenizer' sample run tokenizer=tok
refused 1 'init: run has its own tokenizer' train data=corpus/a.txt init=run tokenizer=bytes steps=1 lr=0.01 out=no

# ---- Wrong tokenizers, records and texts: one sentence, and no run
refused 1 'tokenizer gpt2 is not here: scion data get gpt2-bpe brings it' train data=corpus/a.txt tokenizer=gpt2 $tiny out=no
refused 1 'absent.json' train data=corpus/a.txt tokenizer=absent.json $tiny out=no
refused 1 'corpus: no tokenizer in this folder' train data=corpus/a.txt tokenizer=corpus $tiny out=no
refused 1 'a vocabulary of 100 tokens' train data=corpus/a.txt tokenizer=bpe vocab=100 $tiny out=no
refused 1 'vocab is 100, but the data have 260' train data=corpus/a.txt tokenizer=tok vocab=100 $tiny out=no
refused 1 'b.jsonl.gz: line 1 has no field "text"' train data=corpus tokenizer=tok $tiny out=no
printf '{"text": "a"}\n{"text": ' > cut.jsonl
refused 1 'cut.jsonl: line 2 is no record' train data=cut.jsonl $tiny out=no
[ -e no ] && fault 'a refused run left a folder'

# ---- Bytes take any text
printf 'caf\351 \000 caf\303\251\n%.0s' $(seq 100) > any
"$scion" train data=any data_kind=text tokenizer=bytes $tiny out=bytes > out 2>&1 || fault "bytes: $(cat out)"
"$scion" sample bytes tokens=20 --json > out 2>&1 || fault "bytes: $(cat out)"

# ---- Token shards: numbers without their tokenizer, text with it
shard sh_train.bin 4000
shard sh_val.bin 400
"$scion" train data='sh_*.bin' $tiny out=numbers > out 2>&1 || fault "shards: $(cat out)"
"$scion" sample numbers tokens=5 > out 2>&1 || fault "numbers: $(cat out)"
grep -Eq '^[0-9]+( [0-9]+){4}$' out || fault "not five numbers: $(cat out)"
"$scion" sample numbers prompt='1 2, 3' tokens=2 > out 2>&1 || fault "numbers: $(cat out)"
grep -Eq '^1 2, 3 [0-9]+ [0-9]+$' out || fault "not the prompt and two numbers: $(cat out)"
refused 1 'expected a prompt of tokens below 50304' sample numbers prompt=the
refused 1 'expected a prompt of tokens below 50304' sample numbers prompt=50304
"$scion" train data='sh_*.bin' tokenizer=tok $tiny out=named > out 2>&1 || fault "shards with a tokenizer: $(cat out)"
holds out ' bits per byte'
"$scion" sample named prompt=the tokens=5 > out 2>&1 || fault "a model of shards: $(cat out)"
grep -q '^the' out || fault "no text: $(cat out)"
"$scion" train data='sh_*.bin' vocab=300 $tiny out=late > out 2>&1 || fault "shards: $(cat out)"
"$scion" sample late prompt=the tokens=5 tokenizer=tok > out 2>&1 || fault "a tokenizer for sample: $(cat out)"
grep -q '^the' out || fault "no text: $(cat out)"
refused 1 'token shards without their tokenizer, but the model learned from a text' eval run data=sh_val.bin

# ---- scion data tokenize: shards, which know their tokenizer; a full disk and wrong usage
"$scion" data tokenize corpus field=body tokenizer=tok out=shards shard_tokens=2000 val=500 > out 2>&1 || fault "tokenize: $(cat out)"
tr -s '\n ' ' ' < out > one_line
holds one_line ' tokens to train, '
[ "$(ls shards | tr '\n' ' ' | sed 's/tokens_train_[0-9]*.bin //g')" = 'tokenize.json tokenizer.json tokens_val_000000.bin ' ] ||
    fault "shards: $(ls shards)"
"$scion" train data=shards $tiny out=of_shards > out 2>&1 || fault "train on shards: $(cat out)"
holds out ' bits per byte'
"$scion" sample of_shards prompt=the tokens=5 > out 2>&1 || fault "sample: $(cat out)"
grep -q '^the' out || fault "no text: $(cat out)"
"$scion" eval run data=shards > out 2>&1 || fault "eval of a text's model on its tokenizer's shards: $(cat out)"
"$scion" data tokenize corpus field=body tokenizer=tok out=shards shard_tokens=2000 val=500 --json > out 2>&1 ||
    fault "tokenize again: $(cat out)"
[ "$(json out 'o["found"] == o["shards"] and o["shards"] > 3')" = True ] || fault "tokenize again: $(cat out)"
(ulimit -f 1; "$scion" data tokenize corpus field=body tokenizer=bytes out=full shard_tokens=2000 val=500) > out 2>&1 && fault 'a full disk'
holds out 'tokens_val_000000.bin: not written: '
ls full | grep -q 'bin' && fault "half a shard: $(ls full)"
"$scion" data tokenize corpus field=body tokenizer=bytes out=full shard_tokens=2000 val=500 > out 2>&1 || fault "after it: $(cat out)"
refused 2 'expected tokenizer=' data tokenize corpus out=no
refused 2 'expected out=FOLDER' data tokenize corpus tokenizer=bytes
refused 2 'name texts' data tokenize tokenizer=bytes out=no
refused 1 'absent: there is no such file' data tokenize absent tokenizer=bytes out=no
refused 1 'b.jsonl.gz: line 1 has no field "text"' data tokenize corpus tokenizer=bytes out=refused
[ $faults -eq 0 ]
