#!/bin/sh
# Sweeps of tiny models from beginning to end: grid, ledger, table, JSON, going on, several jobs and presets, what is
# wrong.
#     sweep.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
lacks() { # FILE TEXT
    grep -qF -e "$2" "$1" && { fault "$1 should not hold '$2':"; sed 's/^/    /' "$1"; }
}
base='model=mlp norms=image layers=2 eval_batches=2 threads=1'
tiny="$base batch=16 steps=12 data_kind=synthetic"

# ---- A sweep, its table and its JSON
"$scion" sweep $tiny width=8,16 lr=2^-6..2^-4 ledger=a.db > out 2> log || fault "sweep: $?"
holds out '6 new runs in a.db'
holds out '6 runs done, 0 diverged, 0 failed; a.db'
holds out 'lr \ width         8         16'
tr -s ' \n' ' ' < out > flat
holds flat 'best lr, interpolated by a parabola: 2^-4.00 or more at width 8'
holds flat 'a best value lies on the edge of its grid'
holds flat 'transfer: undecided (one seed has no spread)'
holds out 'validation loss; * the best of its width'
lacks out 'over the seeds'
[ "$(grep -c '^2^-[456] ' out)" -eq 3 ] || fault "three learning rates: $(cat out)"
[ "$(grep -o '\*' out | wc -l)" -eq 3 ] || fault "each of two widths has one best value (and one * explains it)"
"$scion" sweep show a.db --json a.json > shown 2>&1 || fault "show: $?"
sed -n '/^validation/,$p' out > table
cmp -s table shown || fault "show prints something else: $(cat shown)"
[ "$(json a.json '[len(o["groups"]), *sorted(o["groups"][0])]' | tr '\n' ' ')" = \
    '1 at_edge cost cost_finding cost_margin label move_finding moved moved_error moved_from moved_to transfer verdict widths ' ] || fault "a.json: groups: $(cat a.json)"
[ "$(json a.json '[w["width"] for w in o["groups"][0]["widths"] if w["best_lr"] and w["best_loss"]]' | tr '\n' ' ')" = '8 16 ' ] ||
    fault "a.json: widths: $(cat a.json)"
[ "$(json a.json 'sorted(o["groups"][0]["widths"][0]["points"][0])' | tr '\n' ' ')" = \
    'accuracy deviation diverged failed loss lr seeds ' ] || fault "a.json: points: $(cat a.json)"
points='[p["seeds"] for g in o["groups"] for w in g["widths"] for p in w["points"]]'
"$scion" sweep show a.db --json > b.json 2> log || fault "show --json: $?"
tail -n 1 b.json | grep -q '^}$' && [ "$(cat b.json)" = "$(cat a.json)" ] || fault "show --json prints something else: $(cat b.json)"
[ "$(json a.json "$points" | tr '\n' ' ')" = '1 1 1 1 1 1 ' ] || fault "a.json: six points of one seed"

# ---- The same as CSV, a row for each point; the best of a width on the edge of its grid is open
"$scion" sweep show a.db csv=a.csv > out 2>&1 || fault "show csv=: $? $(cat out)"
cmp -s shown out || fault "csv= changes the text: $(cat out)"
"$scion" sweep show a.db --csv > b.csv 2> log || fault "show --csv: $?"
cmp -s a.csv b.csv || fault "show --csv prints something else: $(cat b.csv)"
[ "$(sed 1q a.csv)" = 'group,width,lr,loss,deviation,accuracy,seeds,diverged,failed,best,open' ] || fault "a.csv: $(cat a.csv)"
[ "$(wc -l < a.csv)" -eq 7 ] || fault "a.csv: six points: $(cat a.csv)"
[ "$(grep -c ',1,above$' a.csv)" -eq 2 ] || fault "a.csv: two best values on the edge: $(cat a.csv)"

# ---- Again: nothing new, nothing done, the same table
"$scion" sweep $tiny width=8,16 lr=2^-6..2^-4 ledger=a.db > out 2> log || fault "again: $?"
holds out '0 new runs'
holds out '6 runs done'
sed -n '/^validation/,$p' out > again
"$scion" sweep $tiny width=8,16 lr=2^-6..2^-4 ledger=a.db --json > b.json 2> out || fault "sweep --json: $?"
holds out '6 runs done'
[ "$(cat b.json)" = "$(cat a.json)" ] || fault "sweep --json prints something else: $(cat b.json)"
cmp -s table again || fault "the same sweep again has another table: $(cat again)"
[ -s log ] && fault "nothing was to be done: $(cat log)"

# ---- One more width: only its runs are new, the others stay what they were
"$scion" sweep $tiny width=8,16,32 lr=2^-6..2^-4 ledger=a.db jobs=2 > out 2> log || fault "one more width: $?"
holds out '3 new runs'
holds out '9 runs done'
holds out 'at width 32'
cut -c 1-31 shown | grep '^2^-' > before
cut -c 1-31 out | grep '^2^-' > after
cmp -s before after || fault "runs that were done have changed: $(cat out)"

# ---- jobs=3 gives what jobs=1 gives
"$scion" sweep $tiny width=8,16,32 lr=2^-6..2^-4 ledger=jobs.db jobs=3 > out 2> log || fault "jobs=3: $?"
"$scion" sweep show a.db --json a.json > /dev/null || fault 'show'
"$scion" sweep show jobs.db --json jobs.json > /dev/null || fault 'show'
cmp -s a.json jobs.json || fault 'jobs=3 and jobs=1 have other losses'

# ---- jobs=2 divides threads=2: each worker is one thread, products included, whatever OMP_NUM_THREADS says
OMP_NUM_THREADS=2 "$scion" sweep model=mlp norms=image layers=3 width=512 batch=256 steps=10000 data_kind=synthetic \
    lr=0.01,0.02 threads=2 jobs=2 ledger=threads.db > out 2>&1 &
pool=$!
tasks=
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    sleep 0.2
    for worker in $(cat /proc/$pool/task/$pool/children 2> /dev/null); do
        tasks="$tasks $(ls /proc/"$worker"/task 2> /dev/null | wc -l)"
    done
done
kill -TERM $pool
kill -TERM $pool # once more is the same
wait $pool
status=$?
[ $status -eq 143 ] || fault "SIGTERM: exit status $status"
case " $tasks " in
    *' 2 '* | *' 3 '* | *' 4 '*) fault "workers of a sweep have more than one thread:$tasks" ;;
    *' 1 '*) ;;
    *) fault "no worker was seen: $(cat out)" ;;
esac

# ---- --add leaves the runs to others; a ledger alone resumes
"$scion" sweep $tiny width=8 lr=0.1,0.2 seed=1..2 ledger=add.db --add > out 2>&1 || fault "--add: $?"
holds out '4 new runs in add.db'
"$scion" sweep show add.db > out 2>&1 || fault "show of a sweep that has not begun: $?"
holds out 'no run has finished yet'
"$scion" sweep ledger=add.db threads=1 --json add.json > out 2>&1 || fault "ledger alone: $?"
holds out '4 runs done'
holds out 'validation loss, mean over the seeds'
holds out 'the margin of a cost is two'
[ "$(json add.json "$points" | tr '\n' ' ')" = '2 2 ' ] || fault "sweep --json: two points of two seeds"

# ---- Several presets in one ledger; the ledger's own name
"$scion" sweep shallow-gpt shallow-gpt-adamw data_kind=synthetic vocab=16 layers=1 width=16,32 head_size=16 block=8 \
    batch=4 steps=3 eval_batches=1 threads=1 ledger=both.db > out 2>&1 || fault "two presets: $?"
holds out '4 new runs'
holds out '4 runs done'
holds out 'rule=scion'
holds out 'rule=adamw'
"$scion" sweep mlp $tiny width=8,16 > out 2>&1 || fault "without ledger=: $?"
[ -s sweeps/mlp.db ] || fault 'without ledger= it is sweeps/PRESET.db'

# ---- A single run joins a ledger that exists
"$scion" sweep $tiny width=8,16 lr=0.1 ledger=single.db > out 2> log || fault "two runs: $? $(cat log)"
"$scion" sweep $tiny width=8 lr=0.2 ledger=single.db > out 2> log || fault "a single run: $? $(cat log)"
holds out '1 new run in single.db'

# ---- Runs that diverge or fail are reported, and retried on request only
"$scion" sweep $tiny width=8 rule=sgd lr=1e-3,1e6 ledger=bad.db > out 2> log || fault "a run that diverges: $?"
holds out '1 run done, 1 diverged, 0 failed'
holds out 'diverged'
holds log 'diverged'
: > absent.txt
absent="$base data=absent.txt batch=16 steps=12 width=8,16 ledger=bad.db"
"$scion" sweep $absent --add > out 2>&1 || fault "--add: $?"
rm absent.txt
refused 1 'absent.txt: No such file' sweep $absent
"$scion" sweep ledger=bad.db threads=1 > out 2> log
[ $? -eq 1 ] || fault 'runs that failed should make the exit status 1'
holds out '1 run done, 1 diverged, 2 failed'
holds out 'absent.txt'
"$scion" sweep ledger=bad.db threads=1 > out 2>&1
[ $? -eq 1 ] || fault 'failed runs are still failed'
lacks out 'retried'
"$scion" sweep ledger=bad.db threads=1 --retry > out 2>&1
holds out '2 runs will be retried'
"$scion" sweep ledger=bad.db threads=1 --retry-diverged > out 2>&1
holds out '3 runs will be retried'
holds out '1 run done, 1 diverged, 2 failed'
"$scion" sweep $tiny width=8 rule=sgd lr=1e-3,1e6 ledger=bad.db --retry > out 2> log || fault "others failed: $?"
holds out '0 runs will be retried'

# ---- A sweep runs what it names: what else waits is said, run with --all, removed with --drop
"$scion" sweep $tiny width=8,16 lr=0.1,0.2 ledger=mixed.db --add > out 2>&1 || fault "--add: $?"
"$scion" sweep $tiny width=24,32 momentum=0.2 ledger=mixed.db > out 2> log || fault "named: $?"
holds out '4 runs of other settings wait in mixed.db: --all runs them, --drop removes them'
holds out '2 runs done, 0 diverged, 0 failed; mixed.db'
holds out 'lr \ width        24         32'
lacks out 'momentum='
lacks log 'momentum='
"$scion" sweep show mixed.db > out 2>&1
lacks out 'momentum=' # nothing of the others has run
"$scion" report mixed.db out=mixed.html > out 2>&1 || fault "report: $(cat out)"
lacks mixed.html '<td>momentum</td>'
"$scion" sweep $tiny width=24,32 momentum=0.2 ledger=mixed.db --all > out 2> log || fault "--all: $?"
holds out '6 runs done'
holds out 'momentum=0.2'
"$scion" sweep $tiny width=40,48 ledger=mixed.db --add > out 2>&1
"$scion" sweep $tiny width=8,16 lr=0.1,0.2 ledger=mixed.db --drop > out 2>&1 || fault "--drop: $?"
holds out '2 runs that waited were removed'
holds out '4 runs done'
"$scion" sweep $tiny width=40,48 ledger=mixed.db --add > out 2>&1
holds out '2 new runs'
"$scion" sweep ledger=mixed.db --drop > out 2>&1 || fault "--drop of all: $?"
holds out '2 runs that waited were removed'
holds out '6 runs done'
refused 2 '--all' sweep $tiny width=8,16 ledger=mixed.db --all --drop
refused 2 'did you mean scion train?' sweep $tiny width=8 ledger=one.db
refused 2 'did you mean scion train?' sweep mlp data_kind=synthetic
[ -e one.db ] && fault 'a sweep of nothing made a ledger'

# ---- A ledger that may not grow: one sentence, however many workers say it
if (ulimit -f 64) 2> /dev/null; then
    (ulimit -f 64; exec "$scion" sweep $tiny seed=1..40 width=8,16 ledger=grown.db jobs=2) > out 2>&1
    [ $? -eq 1 ] || fault "ulimit -f: $?"
    [ "$(grep -o 'ulimit -f' out | wc -l)" -eq 1 ] || fault "ulimit -f: $(cat out)"
    [ "$(tail -c 1 out | od -An -c | tr -d ' ')" = '\n' ] || fault 'the sentence ends without a line break'
fi

# ---- A read-only file system, if one can be mounted
if unshare -rm true 2> /dev/null; then
    mkdir readonly
    unshare -rm sh -c 'mount -t tmpfs -o ro tmpfs readonly && exec "$@"' sh "$scion" sweep $tiny width=8,16 \
        ledger=readonly/a.db > out 2>&1
    holds out 'a.db cannot be made or written: Read-only file system'
fi

# ---- Ctrl-C: what was running waits again, and the same command resumes
"$scion" sweep $base batch=16 data_kind=synthetic steps=300000 width=8,16 ledger=long.db > out 2> log &
process=$!
tries=0
while [ $tries -lt 100 ] && ! grep -q 'new runs' out; do sleep 0.05; tries=$((tries + 1)); done
sleep 1 # the worker has begun
kill -INT $process
wait $process
status=$?
[ $status -eq 130 ] || fault "SIGINT: exit status $status"
holds out '2 left (repeat the command to resume)'

# ---- Errors: one sentence; exit status 2 for wrong usage, 1 for bad files
printf 'this is not a ledger, but a text that is longer than one hundred bytes, which is what SQLite looks at at first\n' \
    > text.txt
refused 2 'lr=2^-2..2^-5 is empty' sweep $tiny lr=2^-2..2^-5 ledger=x.db
refused 2 'needs a step' sweep $tiny lr=0.1..0.5 ledger=x.db
refused 2 'did you mean "width"' sweep $tiny widht=8 ledger=x.db
refused 2 'seed is given twice' sweep $tiny seed=1 seed=2 ledger=x.db
refused 2 'a value is missing' sweep $tiny width= ledger=x.db
refused 2 'at most 100000' sweep $base steps=1 data_kind=synthetic seed=1..1000 batch=1..1000 ledger=x.db
refused 2 'preset' sweep nonsense ledger=x.db
refused 2 'name a preset' sweep jobs=1
refused 2 'jobs=0' sweep $tiny jobs=0 ledger=x.db
refused 2 'jobs=many' sweep $tiny jobs=many ledger=x.db
refused 2 'data' sweep mlp ledger=x.db
refused 2 '--retri' sweep $tiny ledger=x.db --retri
refused 2 'one ledger' sweep show
refused 2 'one ledger' sweep show a.db b.db
cp a.db own.db
ln -s own.db link.db
refused 2 'this is the ledger itself' sweep show own.db --json own.db
refused 2 'this is the ledger itself' sweep show link.db --json ./own.db
refused 2 'this is the ledger itself' sweep $tiny width=8 ledger=own.db --json own.db
refused 2 'this is the ledger itself' sweep show own.db csv=own.db
refused 2 'give two files' sweep show own.db csv=x json=x
refused 2 'own.db is a ledger, not a preset: scion sweep ledger=own.db resumes it' sweep own.db
cmp -s a.db own.db || fault 'a ledger was replaced by its own table'
[ -e x.db ] && fault 'wrong arguments made a ledger'
refused 1 'text.txt is not a ledger' sweep $tiny width=8,16 ledger=text.txt
refused 1 'text.txt is not a ledger' sweep ledger=text.txt
refused 1 'text.txt is not a ledger' sweep show text.txt
refused 1 'absent.db' sweep ledger=absent.db
refused 1 'absent.db' sweep show absent.db
refused 1 '/dev/null/x.db' sweep $tiny width=8,16 ledger=/dev/null/x.db
refused 1 'text.txt/x.db' sweep $tiny width=8,16 ledger=text.txt/x.db
refused 1 'directory' sweep $tiny width=8,16 ledger=.
[ -e /dev/full ] && refused 1 '/dev/full' sweep $tiny width=8,16 ledger=/dev/full
"$scion" sweep show a.db --json text.txt/x.json > out 2> log && fault '--json below a file'
holds log 'text.txt/x.json: cannot be written'
grep -q '^this is not' text.txt || fault 'a file that is not a ledger was written to'
[ $faults -eq 0 ]
