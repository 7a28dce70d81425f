#!/bin/sh
# A folder of images from beginning to end: training, files that cannot be read, evaluation with and without tta, predict.
#     predict.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

# NAME MIDDLE: a PNG of one pixel; MIDDLE is what its colour decides.
pixel() {
    printf '\211PNG\r\n\032\n\000\000\000\015IHDR\000\000\000\001\000\000\000\001\010\002\000\000\000\220\167\123\336' > "$1"
    printf "\000\000\000\014IDAT\170\234\143$2\000\000\000\000IEND\256\102\140\202" >> "$1"
}
red='\070\041\047\007\000\002\266\001\005\064\246\165\252'
green='\220\073\041\007\000\002\014\001\005\055\270\066\101'
blue='\220\223\073\001\000\001\142\001\005\021\033\243\041'
for part in train val; do
    mkdir -p photos/$part/red photos/$part/green photos/$part/blue
    for i in 1 2 3 4; do
        pixel photos/$part/red/$i.png "$red"
        pixel photos/$part/green/$i.png "$green"
        pixel photos/$part/blue/$i.png "$blue"
    done
done
echo 'no image' > photos/train/red/torn.png
echo 'no image' > photos/val/blue/torn.jpg

# ---- Training goes on without what cannot be read, names it once and counts it
learn='model=mlp width=16 layers=2 image_size=4 batch=6 lr=0.1 flip=random data=photos'
"$scion" train $learn epochs=6 threads=1 out=run > out 2> log || fault "train: $? $(cat log)"
holds out '3 classes, 13 images to train, 13 to validate, as 4 x 4'
holds out 'accuracy 100.00%'
holds out '2 images could not be read'
holds log 'warning: photos/train/red/torn.png: neither a PNG nor a JPEG image'
holds log 'warning: photos/val/blue/torn.jpg: neither a PNG nor a JPEG image'
[ "$(grep -c torn log)" -eq 2 ] || fault "each file once: $(cat log)"
holds run/summary.json '"skipped": 2'
"$scion" train $learn epochs=6 threads=3 out=again > out 2> log || fault "three threads: $? $(cat log)"
for run in run again; do
    json $run/metrics.jsonl '[line[key] for line in o for key in ("loss", "val_loss") if key in line]' > $run.losses
done
cmp -s run.losses again.losses || fault "threads change losses: $(paste run.losses again.losses)"

# ---- What it gets wrong is in its folder; the report shows it, and needs neither model nor data
[ -s run/mistakes.json ] || fault 'no mistakes.json'
"$scion" train $learn steps=1 threads=1 out=poor > out 2> log || fault "poor: $? $(cat log)"
mkdir bare
cp poor/metrics.jsonl poor/summary.json poor/mistakes.json bare
"$scion" report bare out=page.html > out 2> log || fault "report: $(cat log)"
holds page.html '<h3>Confusion matrix</h3>'
holds page.html 'title="green">green</th>'
wrong=$(json poor/mistakes.json 'len(o["worst"])')
[ "$wrong" -gt 0 ] && [ "$(grep -c '<img ' page.html)" -eq "$wrong" ] || fault "report: $wrong images that it gets wrong"
json poor/mistakes.json '[w["file"] + " " + o["classes"][w["class"]]["name"] for w in o["worst"]]' > named
[ "$(sort -u named | wc -l)" -eq "$wrong" ] || fault "a file for each image: $(cat named)"
while read -r file class; do
    case $file in val/"$class"/*.png) [ -f "photos/$file" ] ;; *) false ;; esac || fault "the file of a mistake: $file, $class"
    holds page.html "<span>$file</span>"
done < named
rm bare/mistakes.json
"$scion" report bare out=page.html > out 2> log || fault "report: $(cat log)"
grep -q '<img \|Confusion' page.html && fault 'mistakes without mistakes.json'
"$scion" eval poor mistakes=bare/mistakes.json --json > out 2> log || fault "eval mistakes=: $(cat log)"
holds out '"classes": [{"name": "blue", "images": 4, "right": '
cmp -s poor/mistakes.json bare/mistakes.json || fault 'eval writes other mistakes than the run did'

# ---- A sweep names files that cannot be read, each once for all its runs
"$scion" sweep model=mlp width=16 layers=2 image_size=4 batch=6 flip=random data=photos epochs=1 lr=0.1,0.2,0.4 threads=2 \
    jobs=2 ledger=sweep.db > out 2> log || fault "sweep: $? $(cat log)"
holds log 'warning: photos/train/red/torn.png: neither a PNG nor a JPEG image'
[ "$(grep -c torn log)" -eq 2 ] || fault "sweep: each file once: $(cat log)"

# ---- Evaluation
"$scion" eval run > out 2> log || fault "eval: $(cat log)"
holds out 'accuracy 100.00%'
holds out 'data: photos/val; 12 of its 13 images'
holds out 'left out: 1 image that'
"$scion" eval run tta=mirror > out 2> log || fault "mirror: $(cat log)"
holds out 'tta=mirror  accuracy without it 100.00%'
"$scion" eval run tta=translate --json > out 2> log || fault "tta: $(cat log)"
holds out '"accuracy": 1.0, "plain_accuracy": 1.0, "tta": "translate"'
holds out '"skipped": 1'
refused 1 'expected one of: none mirror translate' eval run tta=sideways
text 40 > text.txt
refused 1 'tta=mirror: model gpt does not classify images' train data=text.txt layers=1 width=16 head_size=8 block=8 \
    batch=2 steps=1 tta=mirror
"$scion" train data=text.txt layers=1 width=16 head_size=8 block=8 batch=2 steps=1 out=writer > out 2>&1 || fault 'gpt'

# ---- predict, without the data
mkdir empty-album
mv photos/val/red/1.png some.png
mv photos/val/green/1.png another.png
rm -r photos
"$scion" predict run some.png another.png > out 2> log || fault "predict: $(cat log)"
awk 'NR == 2 { first = $2 } NR == 6 { second = $2 } END { exit !(NR == 8 && first == "red" && second == "green") }' out ||
    fault "predict: $(cat out)"
"$scion" predict run some.png another.png --quiet > out 2> log || fault "--quiet: $(cat log)"
[ "$(cat out)" = "$(printf 'red\ngreen')" ] || fault "--quiet: $(cat out)"
"$scion" predict run some.png top=1 tta=mirror --json > out 2> log || fault "--json: $(cat log)"
holds out '{"file": "some.png", "classes": [{"name": "red", "probability": 0.'
[ "$(wc -l < out)" -eq 1 ] || fault "--json: $(cat out)"

# ---- A folder stands for all images in it; names of folders that are classes are compared with the answers
mkdir -p album/red album/deep/green album/others
cp some.png album/red/a.png
cp some.png album/red/b.PNG
cp another.png album/deep/green/c.png
cp another.png album/red/d.png # a wrong label
cp some.png album/others/e.png
echo 'no image' > album/red/readme.txt
echo 'GIF89a' > album/others/f.gif
"$scion" predict run album top=1 > out 2> log || fault "predict a folder: $(cat log)"
holds out '5 images: 3 red, 2 green'
holds out '3 of 4 have the class that their folder names: 75.00%'
holds log 'warning: album: 1 image in formats that are not read, such as .gif'
"$scion" predict run album/ some.png --quiet > out 2> log || fault "predict a folder --quiet: $(cat log)"
[ "$(cat out)" = "$(printf 'green\nred\nred\nred\ngreen\nred')" ] || fault "a folder in order: $(cat out)"
"$scion" predict run album/red --json top=1 > out 2> log || fault "predict a folder --json: $(cat log)"
[ "$(grep -c '"file": "album/red/[abd].*", "folder_class": "red", "classes": ' out)" -eq 3 ] || fault "--json: $(cat out)"
refused 1 'empty-album: no PNG or JPEG images in it' predict run empty-album
echo 'no image' > torn.png
"$scion" predict run torn.png some.png --quiet > out 2> log
[ $? -eq 1 ] || fault 'a file that is no image must end with status 1'
holds log 'scion: torn.png: neither a PNG nor a JPEG image'
[ "$(cat out)" = "$(printf '\nred')" ] || fault "a line for each file: $(cat out)"
mkdir lr=0.1
cp some.png lr=0.1/a=b.png
cp some.png a=b.png
"$scion" predict run ./lr=0.1/a=b.png --quiet -- a=b.png > out 2> log || fault "names with =: $(cat log)"
[ "$(cat out)" = "$(printf 'red\nred')" ] || fault "names with =: $(cat out)"
refused 2 'give the folder of a run, or a checkpoint, and image files' predict run
refused 1 'mistakes=x.json: model gpt does not classify images' eval writer mistakes=x.json
refused 1 'only a model that learned from images can classify them' predict writer some.png
refused 1 'absent' predict absent some.png
refused 1 'width=8: cannot be changed' predict run some.png width=8

# ---- Images of other formats are named, with a way to convert them; large images for an mlp get a hint
mkdir -p mixed/cat mixed/dog webp/cat webp/dog
for kind in cat dog; do
    pixel mixed/$kind/1.png "$red"
    pixel mixed/$kind/2.png "$blue"
    echo x > mixed/$kind/3.webp
    echo x > webp/$kind/1.WebP
done
"$scion" train model=mlp data=mixed width=8 layers=2 batch=2 steps=1 threads=1 val_fraction=0.5 out=mixed-run > out 2> log ||
    fault "other formats: $(cat log)"
tr '\n' ' ' < out | tr -s ' ' > line
holds line 'left out: 2 images in formats that are not read (.webp, say; mogrify -format png FILE ... converts)'
holds line "note: 1.2 of 1.2 million weights are the first layer's, for images of 224 x 224; image_size=32 makes it 49 times"
holds line 'and up to 268.4 MB more while very large images are decoded'
"$scion" train model=mlp data=mixed width=8 layers=2 batch=2 steps=1 threads=1 val_fraction=0.5 image_size=32 out=small-run > out \
    2> log || fault "small images: $(cat log)"
grep -q "first layer's" out && fault 'a hint where images are small'
refused 1 'webp: its images are .webp, not PNG or JPEG: mogrify -format png FILE ... converts them' train model=mlp data=webp steps=1

# ---- Data that nothing can be learned from
mkdir -p one/cat empty
pixel one/cat/1.png "$red"
refused 1 'one: all images are of one class, cat: there is nothing to learn' train model=mlp data=one steps=1
refused 1 'empty: no folder in it has PNG or JPEG images' train model=mlp data=empty steps=1

[ $faults -eq 0 ]
