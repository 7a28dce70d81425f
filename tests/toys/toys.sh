#!/bin/sh
# What CONTRIBUTING promises: a norm, a rule, a model and a kind of data are a file and a row each; a sink too; a metric
# and a flat array are a row. The program with the toys of this folder knows them in its help, checks, routing, training,
# checkpoints, evaluation, sweeps and reports.
#     toys.sh PATH-OF-SCION-WITH-TOYS PRESETS
. "${0%/*}/../cli/opening"

toy='model=linear data_kind=dots norms=image radius_hidden=1 batch=8 lr=0.1'

# ---- Help and choices
"$scion" presets --options > folded || fault "presets --options: $?"
tr "\n" " " < folded | tr -s " " > options
holds options '(gpt; gpt mlp linear)'
tr -s ' \n' ' ' < options > one_line # lines are broken at 80 columns
holds one_line '(auto; auto text chars synthetic dots)'
holds options 'linear: hidden matrices (2)'
holds options 'dots: images to train (64)'
holds options 'label smoothing (0)'
refused 2 'expected one of: gpt mlp linear' train model=conv
refused 2 'did you mean "copies"' train $toy steps=2 copise=2

# ---- Checks: of the model, of options that belong to another, of inputs that the data do not have
refused 2 'copies is 7, which model linear does not like' train $toy steps=2 copies=7
refused 2 'width is for models gpt, mlp, model linear has none' train $toy steps=2 width=64
refused 2 'copies is for model linear, model mlp has none' train model=mlp data_kind=dots steps=2 copies=3
refused 1 'model gpt needs tokens, the data have pixels and targets' train data_kind=dots steps=2 batch=4

# ---- A run, its resumption, evaluation, what cannot be
"$scion" train $toy steps=40 dots=100 eval_every=20 out=run > out 2> log || fault "train: $? $(cat log)"
holds out 'copies.0-1'
holds out '100 dots'
holds out 'images/s'
holds out 'accuracy'
[ "$(wc -l < run/steps.txt)" -eq 40 ] || fault "the toy sink wrote $(wc -l < run/steps.txt) lines for 40 steps"
"$scion" eval run > evaluated 2>&1 || fault "eval: $? $(cat evaluated)"
holds evaluated 'accuracy 100'
# ... of the average of the weights (toy_flat.c), as the run's last validation
"$scion" eval run/step-00000040.safetensors --json > evaluated || fault "eval: $?"
[ "$(json evaluated '"%.6g" % o["loss"]')" = "$(json run/summary.json '"%.6g" % o["val_loss"]')" ] ||
    fault "eval: $(cat evaluated), the run: $(cat run/summary.json)"
"$scion" train $toy steps=40 dots=100 eval_every=20 save_every=20 keep=9 threads=1 out=whole > out 2>&1 || fault "train: $?"
"$scion" resume whole/step-00000020.safetensors out=half > out 2>&1 || fault "resume: $? $(cat out)"
cmp -s whole/step-00000040.safetensors half/step-00000040.safetensors ||
    [ "$(json whole/summary.json 'o["val_loss"]')" = "$(json half/summary.json 'o["val_loss"]')" ] || fault 'a resumed run differs'
refused 1 'only a model that learned from a text' sample run
"$scion" train model=mlp data_kind=dots width=16 batch=8 steps=4 out=mlp > out 2>&1 || fault "mlp on dots: $? $(cat out)"

# ---- A sweep, the coordinate check's and tuning's questions, a report
"$scion" sweep $toy steps=10 copies=1..3 noise=0,0.5 ledger=toys.db > out 2>&1 || fault "sweep: $? $(cat out)"
"$scion" sweep $toy steps=10 copies=1..3 noise=0,0.5 ledger=toys.db > out 2>&1 || fault "sweep again: $?"
holds out '0 new'
"$scion" report run toys.db out=report.html > out 2>&1 || fault "report: $? $(cat out)"
holds report.html 'copies'
holds report.html 'images'

# ---- A metric: in the lines of a run, its summary, the figures and their numbers, and the ledger
python3 - run toys.db report/run1-toy.csv report/toy.csv << 'END' || fault 'the toy metric is not everywhere'
import json, os, sqlite3, sys
run, ledger, *figures = sys.argv[1:]
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
steps = [line for line in lines if "loss" in line]
assert steps and all(line["toy_s"] > 0 for line in steps), lines
assert all("toy_s" not in line for line in lines if "val_loss" in line), lines
assert json.load(open(run + "/summary.json"))["toys_s"] >= sum(line["toy_s"] for line in steps)
(figure,) = [path for path in figures if os.path.exists(path)]
assert sum(line.startswith("toy seconds,") for line in open(figure)) == len(steps), open(figure).read()
db = sqlite3.connect(ledger)
assert db.execute("SELECT count(*) FROM runs WHERE toys_s > 0").fetchone()[0] == 6
assert db.execute("SELECT count(*) FROM points WHERE toy_s > 0").fetchone()[0] >= 6
END
holds report.html 'toy time'

# ---- A norm and a rule of the library
holds one_line 'adamw sgd lion normuon'
rows='model=linear data_kind=dots radius_hidden=1 batch=8'
"$scion" train $rows norms=sum,sum,sum rule=uscion lr=0.02 steps=20 out=norm > out 2>&1 || fault "norm: $? $(cat out)"
holds out ' sum '
refused 2 'norms' train $rows norms=sun,sum,sum steps=2
"$scion" train $toy rule=lion lr=0.01 steps=40 out=lion > out 2>&1 || fault "rule: $? $(cat out)"
holds out ' lion '
"$scion" eval lion > evaluated 2>&1 || fault "eval: $? $(cat evaluated)"
holds evaluated 'accuracy'
"$scion" sweep $rows lr=0.01 steps=5 rule=lion,scion norms=sum,sum,sum/image ledger=rows.db > out 2>&1 || fault "sweep: $? $(cat out)"
"$scion" report lion rows.db out=report.html > out 2>&1 || fault "report: $? $(cat out)"
holds report.html 'lion'

# ---- A rule with one number a row: checkpoints have its states in their own shapes, and a resumed run is the same run
"$scion" train $toy rule=normuon lr=0.05 steps=40 dots=100 save_every=20 keep=9 threads=1 out=rows > out 2>&1 ||
    fault "normuon: $? $(cat out)"
"$scion" resume rows/step-00000020.safetensors out=again > out 2>&1 || fault "resume: $? $(cat out)"
python3 - rows/step-00000040.safetensors again/step-00000040.safetensors << 'END' || fault 'states of rows'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]
(head, one), (_, other) = map(read, sys.argv[1:])
assert head["optimizer.rows.copies.0"]["shape"] == head["copies.0"]["shape"][:1]
assert head["optimizer.norm.copies.0"]["shape"] == [1]
assert one == other
END

[ $faults -eq 0 ]
