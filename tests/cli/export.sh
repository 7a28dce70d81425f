#!/bin/sh
# Exported models, read by the formats alone (read_export.py): every tensor, key and factor; refusals; nothing overwritten.
#     export.sh PATH-OF-SCION PRESETS
here=$(cd "${0%/*}" && pwd) || exit 1
modules=numpy
. "$here/../find_python"
. "${0%/*}/opening"

# RUN FORMAT TYPE: exports, and reads the export.
good() {
    out=$1-$3.$2
    "$scion" export "$1" out="$out" format="$2" type="$3" > log 2>&1 || fault "$1 $2 $3: $(cat log)"
    $python "$here/read_export.py" "$2" "$1/step-00000004.safetensors" "$out" "$3" > log 2>&1 || fault "$1 $2 $3: $(cat log)"
    [ -z "$(find . -name '*.tmp.*')" ] || fault "left: $(find . -name '*.tmp.*')"
}

text 60 > text.txt
{ text 60; printf 'Gr\303\274\303\237e, \342\202\254 5, \342\202\251, \360\237\230\200 \360\237\230\201\n'; } > wide.txt
tiny='data=text.txt layers=2 width=64 head_size=16 block=20 batch=4 steps=4 eval_every=4 lr=2^-5 threads=1 log_every=0'

# ---- Activations, heads, types
for f in relu2 scaled_relu2 gelu sqrt2_gelu relu scaled_relu tanh; do
    "$scion" train $tiny activation=$f out=$f > log 2>&1 || fault "$f: $(cat log)"
    good $f hf float32
done
for f in relu2 scaled_relu2; do
    for type in float32 bf16 q8_0; do good $f gguf $type; done
done
"$scion" train $tiny activation=scaled_relu2 tied=yes norms=shared rotary_base=500 out=tied > log 2>&1 || fault "tied: $(cat log)"
"$scion" train $tiny activation=scaled_relu2 weights=bf16 out=half > log 2>&1 || fault "half: $(cat log)"
for run in tied half; do
    for type in float32 bf16; do
        good $run hf $type
        good $run gguf $type
    done
done

# ---- Tokenizers
"$scion" train $tiny activation=relu2 tokenizer=bpe vocab=300 out=bpe > log 2>&1 || fault "bpe: $(cat log)"
"$scion" train $tiny activation=relu2 tokenizer=bytes out=bytes > log 2>&1 || fault "bytes: $(cat log)"
"$scion" train $tiny activation=relu2 data=wide.txt out=wide > log 2>&1 || fault "wide: $(cat log)"
"$scion" train $tiny activation=relu2 vocab=64 out=spare > log 2>&1 || fault "spare: $(cat log)"
text 30 | sed 's/fox/f\xf6x/' > latin.txt
"$scion" train $tiny activation=relu2 data=latin.txt out=latin > log 2>&1 || fault "latin: $(cat log)"
for run in bpe bytes wide spare latin; do
    good $run hf float32
    good $run gguf bf16
done
"$scion" export relu2 out=default.gguf format=gguf > log 2>&1 && cmp -s default.gguf relu2-bf16.gguf || fault 'gguf: default type'
"$scion" export relu2/step-00000004.safetensors out=deep/er/default format=hf > log 2>&1 &&
    cmp -s deep/er/default/model.safetensors relu2-float32.hf/model.safetensors || fault "hf: default type: $(cat log)"
holds deep/er/default/README.md 'scion train'

# ---- Refusals
refused 2 'name the folder or file to write' export relu2 format=hf
refused 2 'name the format' export relu2 out=new
refused 1 'format=onnx: expected hf or gguf' export relu2 out=new format=onnx
refused 1 'type=q8_0: format=hf expects float32 or bf16' export relu2 out=new format=hf type=q8_0
refused 1 'export with format=hf, or train with activation=scaled_relu2' export gelu out=new format=gguf
"$scion" train $tiny qk_norm=no out=plain > log 2>&1 || fault "plain: $(cat log)"
refused 1 'train with qk_norm=yes' export plain out=new format=hf
"$scion" train $tiny width=48 activation=relu2 out=narrow > log 2>&1 || fault "narrow: $(cat log)"
refused 1 'type=q8_0 stores 32 entries of a row together' export narrow out=new format=gguf type=q8_0
shard part_train.bin 2000
shard part_val.bin 200
"$scion" train $tiny data='part_*.bin' vocab=100 out=shards > log 2>&1 || fault "shards: $(cat log)"
refused 1 'tokenizer=gpt2|FILE|FOLDER names it' export shards out=new format=hf
"$scion" train data_kind=synthetic model=mlp layers=2 width=8 batch=4 steps=4 threads=1 log_every=0 out=images > log 2>&1 || fault "images: $(cat log)"
refused 1 'only a model of text can be exported' export images out=new format=hf
refused 1 'missing' export missing out=new format=hf
[ ! -e new ] || fault 'a refused export wrote something'

# ---- Nothing is overwritten
mkdir folder
echo kept > file
for format in hf gguf; do
    for out in folder file relu2-float32.hf relu2-bf16.gguf; do
        refused 1 "$out: exists already" export relu2 out=$out format=$format
    done
done
[ "$(cat file)" = kept ] && [ -z "$(ls folder)" ] || fault 'something was overwritten'

# ---- A full disk: a limit on the size of files stands for it
for format in hf gguf; do
    (ulimit -f 64; "$scion" export relu2 out=full format=$format type=float32 > out 2>&1)
    [ $? -eq 1 ] && [ "$(grep -c . out)" -eq 1 ] || fault "full disk, $format: $(cat out)"
    holds out 'full'
    [ -z "$(find . -name 'full*')" ] || fault "a full disk left $(find . -name 'full*')"
done

[ $faults -eq 0 ]
