#!/bin/sh
# Tokenizers: learned from texts, the same file on any number of threads; texts encoded and decoded again; what is wrong.
#     tokenizer.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

{ text 400; "$scion" presets --options; } > text.txt
mkdir texts
text 100 > texts/a.txt
text 150 | gzip > texts/b.gz
printf '{"text": "one\\u0000two", "other": 1}\n{"text": "Gr\\u00fc\\u00dfe, 123"}\n' > records.jsonl
printf '{"body": "one"}\n' > bodies.jsonl

# ---- Learning
"$scion" tokenizer train text.txt texts records.jsonl vocab=600 out=a.json threads=1 > out 2>&1 || fault "train: $(cat out)"
holds out 'learned from 5 texts'
"$scion" tokenizer train text.txt texts records.jsonl vocab=600 out=b.json threads=2 > out 2>&1 || fault "threads: $(cat out)"
cmp -s a.json b.json || fault 'threads change the tokenizer'
"$scion" tokenizer train text.txt vocab=60000 out=c.json > out 2>&1 || fault "large: $(cat out)"
holds out 'fewer than 60000 tokens: no other pair occurs twice'
"$scion" tokenizer train text.txt vocab=600 max_token_length=3 out=c.json > out 2>&1 || fault "short: $(cat out)"
holds out 'the longest has 3 bytes'

# ---- Encoding and decoding
head -c 3000 /dev/urandom > random.bin
for file in text.txt random.bin "$scion"; do
    "$scion" tokenizer encode tokenizer=a.json "$file" > tokens || fault "encode $file"
    [ "$(wc -l < tokens)" -eq 1 ] || fault "$file: $(wc -l < tokens) lines"
    "$scion" tokenizer decode tokenizer=a.json tokens > back || fault "decode $file"
    cmp -s back "$file" || fault "$file is not the same after decoding"
done
"$scion" tokenizer encode tokenizer=a.json records.jsonl > tokens || fault 'records'
[ "$(wc -l < tokens)" -eq 2 ] || fault "records: $(cat tokens)"
"$scion" tokenizer decode tokenizer=a.json < tokens > back || fault 'decode records'
printf 'one\0twoGrüße, 123' | cmp -s - back || fault "records: $(cat back)"
"$scion" tokenizer encode tokenizer=a.json field=body bodies.jsonl | "$scion" tokenizer decode tokenizer=a.json > back
[ "$(cat back)" = one ] || fault "field=body: $(cat back)"

# ---- A description
"$scion" tokenizer info a.json > out || fault 'info'
holds out 'tokens     600'
holds out 'separator  599, 13 bytes: "<|endoftext|>"'
holds out "pattern    's|'t|'re"
grep -q '^hash       [0-9a-f]\{16\}$' out || fault "info: $(cat out)"
"$scion" tokenizer info tokenizer=a.json | cmp -s - out || fault 'info tokenizer='

# ---- Refusals
refused 2 'expected train, encode, decode or info' tokenizer learn
refused 2 'expected train, encode, decode or info' tokenizer
refused 2 'name the file to write' tokenizer train text.txt
refused 2 'name the texts' tokenizer train out=x.json
refused 2 'vocab' tokenizer train text.txt out=x.json vocab=100
refused 2 'name the tokenizer' tokenizer encode text.txt
refused 2 'name the texts' tokenizer encode tokenizer=a.json
refused 1 'missing.json: cannot open' tokenizer info missing.json
refused 1 'text.txt: line 1 is not a token in base64' tokenizer info text.txt
refused 1 'no tokenizer in this folder' tokenizer info texts
echo '600 12' > wrong
refused 1 'wrong: line 1: found 600; expected tokens, 0 to 599' tokenizer decode tokenizer=a.json wrong
echo 'x7 12' > wrong
refused 1 'wrong: line 1: found x7; expected tokens, 0 to 599' tokenizer decode tokenizer=a.json wrong
head -c 4000 a.json > cut.json
refused 1 'cut.json: damaged or cut off' tokenizer encode tokenizer=cut.json text.txt
[ ! -e x.json ] || fault 'a refused command wrote a file'

[ $faults -eq 0 ]
