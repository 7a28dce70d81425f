#!/bin/sh
# scion report: two short runs on one page, the files beside it, the script that the page's policy lets run, wrong usage.
#     report.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

tiny='model=mlp norms=image data_kind=synthetic batch=16 steps=30 log_every=1 eval_every=10 norm_every=10 threads=1'
# shellcheck disable=SC2086 # one word per setting
"$scion" train $tiny width=16 out=narrow > log 2>&1 || { fault "train: $?"; cat log; }
# shellcheck disable=SC2086
"$scion" train $tiny width=32 lr=0.125 out=lr=0.125 > log 2>&1 || { fault "train: $?"; cat log; }

# ---- One run, by default to report.html
"$scion" report narrow > out 2>&1 || { fault "report: $?"; cat out; }
holds out 'report/loss.svg  Loss'
[ "$(tail -n 1 out)" = report.html ] || fault 'the page is named last'
for id in loss accuracy lr norms speed optimizer; do
    holds report.html "<figure id=\"$id\">"
    [ -s report/$id.svg ] && [ -s report/$id.csv ] || fault "figure $id is not in the folder"
done
[ "$(grep -c '^training,' report/loss.csv)" -eq 30 ] || fault 'every logged step is a point of the loss'
[ "$(grep -c '^validation,' report/loss.csv)" -eq 3 ] || fault '3 validations'
holds report.html '<td class="r">data_kind</td><td class="long">synthetic</td>'

# ---- Two, and a run that has not ended; a name with a '=' is no setting
"$scion" report narrow lr=0.125/ out=two.html > out 2>&1 || { fault "report of two: $?"; cat out; }
holds two.html 'Runs compared'
holds two.html 'width=32 lr=2⁻³'
holds two/compare-training.csv 'lr=0.125,1,'
rm lr=0.125/summary.json
"$scion" report lr=0.125 out=unfinished.html > out 2>&1 || { fault "report of an unfinished run: $?"; cat out; }
holds unfinished.html 'the run has not ended'
"$scion" report narrow out=narrow.html title='A <title>' > out 2>&1 || { fault 'out=FILE'; cat out; }
holds narrow.html '<h1>A &lt;title&gt;</h1>'
[ -e narrow/loss.svg ] && fault 'figures were put among the files of a run'
[ -s narrow.files/loss.svg ] || fault 'no figures beside narrow.html'

# ---- The same runs give the same bytes
"$scion" report narrow out=again.html title='Report on narrow' > /dev/null 2>&1
sed 's/"again\//"report\//g' again.html | cmp -s - report.html || fault 'two reports of one run differ'

# ---- The policy names the hash of the script
sed -n '/^<script>/,/^<\/script>/p' report.html | sed '1s/^<script>//' | sed '$d' > script
for byte in $(sha256sum script | cut -c 1-64 | sed 's/../& /g'); do
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o "0x$byte")"
done > hash
holds report.html "script-src 'sha256-$(base64 hash)'"

# ---- Wrong usage and wrong files
mkdir empty
echo 'no ledger' > text.txt
refused 2 'give the folder of a run' report
refused 2 'did you mean out=FILE?' report narrow --ot x.html
refused 1 'nothing: No such file' report nothing
refused 1 'empty: not the folder of a run' report empty
refused 1 'text.txt' report text.txt
refused 1 'cannot make this folder' report narrow out=absent/x.html
for file in metrics.jsonl summary.json best.safetensors; do
    cp narrow/$file before
    refused 1 'is not a page' report narrow out=narrow/$file
    cmp -s narrow/$file before || fault "report replaced narrow/$file"
done
"$scion" report narrow out=two.html > out 2>&1 || { fault 'an earlier page is replaced'; cat out; }
echo 'nonsense' >> lr=0.125/metrics.jsonl
echo '{"step":99,"loss":1}' >> lr=0.125/metrics.jsonl
refused 1 'not a line of metrics' report narrow lr=0.125 out=bad.html
[ -e bad.html ] && fault 'a page of damaged runs was written'
[ $faults -eq 0 ]
