#!/bin/sh
# scion coordcheck: its table and verdicts, the figures that it writes, the presets of the paper's figure, mistakes.
#     coordcheck.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

# ---- The paper's figure: the plain scale grows as the square root, the other one is flat
"$scion" coordcheck input-radius width=16..128:*2 data_kind=synthetic after=0 > out 2>&1 || fault "input-radius: $?"
holds out 'flat: at initialisation'
holds out 'layers.0.weight    start'
"$scion" coordcheck input-radius-plain width=16..128:*2 after=0 > out 2>&1 || fault "input-radius-plain: $?"
tr '\n' ' ' < out | # the sentence is broken at 80 columns
    grep -q 'growing: at initialisation layers.0.weight goes as width^0.\(4[5-9]\|5[0-5]\) from width 16 to 128' ||
    fault "input-radius-plain: $(cat out)"

# ---- Two groups, two seeds; JSON and ledger
"$scion" coordcheck mlp width=16,32 batch=32 rule=scion,adamw seed=1..2 after=2 --json out.json ledger=out.db \
    > out 2> log || fault "mlp: $?"
holds out 'mean over 2 seeds'
holds out 'rule=scion'
holds out 'rule=adamw'
holds out 'step 2'
[ "$(grep -c 'after 2 steps' out)" -eq 2 ] || fault 'one sentence a group'
[ "$(grep -c 'the change in the first step goes as width' out)" -eq 2 ] || fault 'one on changes as well'
[ "$(grep -c '^ *change ' out)" -eq 6 ] || fault 'a row of changes for each layer'
[ "$(json out.json '[g["label"] for g in o]' | tr '\n' ' ')" = 'rule=scion rule=adamw ' ] || fault "labels: $(cat out.json)"
[ "$(json out.json 'sorted(o[0])' | tr '\n' ' ')" = \
    'change_sentence config label layers seeds sentence steps verdict widths worst ' ] || fault "keys: $(cat out.json)"
[ "$(json out.json '[o[1]["seeds"], *o[1]["widths"], o[1]["layers"][-1]["name"], *sorted(o[1]["layers"][0])]' | tr '\n' ' ')" = \
    '2 16 32 logits change change_slope name rms slope verdict ' ] || fault "layers: $(cat out.json)"
[ "$(json out.json 'len(o[0]["layers"][0]["rms"])')" -eq 3 ] || fault "the start and two steps: $(cat out.json)"
[ -s out.db ] || fault 'no ledger'

# ---- The same numbers again; a text; a GPT
"$scion" coordcheck mlp width=16,32 batch=32 rule=scion,adamw seed=1..2 after=2 --json again.json ledger=out.db \
    > again 2> log || fault "mlp again: $?"
cmp -s out again || fault 'two checks of the same runs differ'
seq 1 3000 > text.txt
"$scion" coordcheck shallow-gpt data=text.txt width=32,64 head_size=16 layers=1 block=16 batch=4 after=1 > out 2>&1 ||
    fault "gpt: $?"
holds out 'data: text.txt'
holds out 'blocks.0.attn.q'

# ---- Mistakes
refused 2 'two widths' coordcheck mlp
refused 2 'two widths' coordcheck mlp width=64
refused 2 'two widths' coordcheck mlp width=64,64
refused 2 'did you mean "width"?' coordcheck mlp widht=3
refused 2 'did you mean "mlp"?' coordcheck mpl width=1,2
refused 2 'multiple of head_size' coordcheck shallow-gpt width=64,100
refused 2 'after=many' coordcheck mlp width=1,2 after=many
refused 2 'did you mean json=FILE' coordcheck mlp width=1,2 --jsn x
refused 2 'one preset at most' coordcheck mlp input-radius width=1,2
refused 2 'this is the ledger itself' coordcheck mlp data_kind=synthetic width=8,16 ledger=own.db --json own.db
refused 1 'absent.txt' coordcheck shallow-gpt data=absent.txt width=64,128
refused 1 'the run has only 2' coordcheck mlp width=8,16 steps=2 after=3
refused 1 'no/such/out.db' coordcheck mlp width=8,16 ledger=no/such/out.db
"$scion" coordcheck mlp width=8,16 batch=8 --json no/such/out.json > out 2>&1 && fault 'a folder that is not there'
holds out 'no/such/out.json: cannot be written'
"$scion" coordcheck mlp width=8,16 batch=8 json=a.json > out 2>&1 || fault "json=: $?"
"$scion" coordcheck mlp width=8,16 batch=8 --json > b.json 2> out || fault "--json: $?"
[ "$(cat b.json)" = "$(cat a.json)" ] || fault "--json prints something else: $(cat b.json)"
[ $faults -eq 0 ]
