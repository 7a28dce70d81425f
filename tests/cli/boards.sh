#!/bin/sh
# Where people look at a run: metrics.csv and TensorBoard's event files say what metrics.jsonl says, also of runs that were
# stopped, killed and resumed.
#     boards.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"

text 1500 > text.txt
tiny='shakespeare data=text.txt width=32 head_size=16 layers=1 block=32 batch=8 eval_tokens=500 log_every=2 norm_every=6
    eval_every=6 save_every=6 keep=9'

# RUN: every point of its metrics.jsonl is a row of metrics.csv and an event, with the same numbers, and nothing else is. Of
# events, later files replace the steps after their session's start.
cat > compare.py << 'END'
import csv, glob, json, struct, sys

def crc(data):
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff

def records(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        size, head = struct.unpack_from("<QI", data, at)
        event = data[at + 12:at + 12 + size]
        assert head == crc(data[at:at + 8]) and struct.unpack_from("<I", data, at + 12 + size)[0] == crc(event), path
        yield event
        at += 16 + size

def fields(data):
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at, found = 0, []
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            found.append((key >> 3, data[at:at + size]))
            at += size
    return found

run, *boards = sys.argv[1:]
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
points = [line for line in lines if "name" not in line]
rows = list(csv.DictReader(open(run + "/metrics.csv")))
assert len(rows) == len(points) > 0, (rows, points)
for row, point in zip(rows, points):
    assert list(row)[:2] == ["step", "timestamp"], row
    known = {key: value for key, value in row.items() if value != ""}
    assert known.pop("timestamp") == point.pop("time"), (row, point)
    assert {key: float(value) for key, value in known.items()} == point, (row, point)
for folder in boards:
    found = {}
    for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
        first, *events = records(path)
        assert (3, b"brain.Event:2") in fields(first), first
        for event in events:
            event = dict(fields(event))
            if 7 in event: # a session starts: later steps are taken back
                found = {key: value for key, value in found.items() if key[1] < event[2]}
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                found[value[1].decode(), event[2]] = struct.unpack("<f", value[2])[0]
    def single(x):
        return struct.unpack("<f", struct.pack("<f", x))[0]
    want = {}
    for line in lines:
        step = line.pop("step")
        behind = "/" + line.pop("name") if "name" in line else ""
        for key in "time", "ratio", "overshoot":
            line.pop(key, None)
        want.update({(key + behind, step): single(value) for key, value in line.items() if value is not None})
    shares = {key for key in found if key[0] == "worst_share_of_bound"}
    assert {step for _, step in shares} == {step for key, step in want if key.startswith("norm/")}, shares
    assert all(0 < found.pop(key) < 1.01 for key in shares)
    assert found == want, (set(found.items()) ^ set(want.items()))
END
compare() {
    python3 compare.py "$@" 2> why || fault "$1: $(cat why)"
}

# shellcheck disable=SC2086
"$scion" train $tiny steps=24 out=run tensorboard=boards > log 2>&1 || fault "train: $(cat log)"
compare run boards/run
[ "$(ls boards/run | wc -l)" -eq 1 ] || fault "one run, one file: $(ls boards/run)"
# No events unless they are asked for.
# shellcheck disable=SC2086
"$scion" train $tiny steps=4 out=plain > log 2>&1 || fault "train: $(cat log)"
compare plain
# From an earlier checkpoint: the steps behind it are taken back.
sleep 1 # names of event files have the second
"$scion" resume run/step-00000012.safetensors > log 2>&1 || fault "resume: $(cat log)"
compare run boards/run
[ "$(ls boards/run | wc -l)" -eq 2 ] || fault "a resumed run has another file: $(ls boards/run)"
# Elsewhere; and in the folder of the run itself.
"$scion" resume run/step-00000012.safetensors out=runs/branch tensorboard=runs > log 2>&1 || fault "resume: $(cat log)"
compare runs/branch runs/branch
# An older run, without metrics.csv.
rm run/metrics.csv
"$scion" resume run steps=30 > log 2>&1 || fault "resume: $(cat log)"
compare run

# Killed: what was written can be read, and the run goes on.
# shellcheck disable=SC2086
"$scion" train $tiny steps=100000 out=killed tensorboard=boards report=2 > log 2>&1 &
pid=$!
until [ -e killed/step-00000018.safetensors ] || ! kill -0 $pid 2> /dev/null; do sleep 0.1; done
kill -9 $pid
wait $pid 2> /dev/null
python3 -c 'import glob, sys
sys.argv[1:] = ["none"]
source = open("compare.py").read().split("run, *boards")[0]
exec(source)
(path,) = glob.glob("boards/killed/*")
assert len(list(records(path))) > 10' 2> why || fault "killed: $(cat why)"
holds log 'page: killed/report.html, drawn every 2 steps'
# ... its page reloads itself, and has no files beside it.
holds killed/report.html '<meta http-equiv="refresh" content="5">'
holds killed/report.html 'The run goes on: step '
[ -e killed/report ] && fault 'a page that is drawn again has files'
sleep 1
last=$(ls killed/step-*.safetensors | tail -n 1)
steps=$(basename "$last" .safetensors | sed 's/step-0*//')
"$scion" resume killed steps=$((steps + 6)) > log 2>&1 || fault "resume: $(cat log)"
compare killed boards/killed

# At the end the page is that of scion report: it does not reload.
for run in killed stopped failed; do
    case $run in
        # shellcheck disable=SC2086
        stopped) "$scion" train $tiny steps=100000 max_minutes=0.005 report=2 out=stopped > log 2>&1 || fault "$(cat log)" ;;
        failed)
            "$scion" train model=mlp data_kind=synthetic norms=image width=16 batch=8 steps=200 rule=sgd lr=1e3 \
                boundary_init=no log_every=1 report=2 out=failed > log 2>&1 && fault 'lr=1e3 did not fail'
            ;;
    esac
    [ -e $run/report.html ] || fault "$run: no page: $(cat log)"
    grep -q refresh $run/report.html && fault "$run: the page reloads itself still"
    mv $run/report.html page.html
    "$scion" report $run out=$run/report.html > log 2>&1 || fault "report: $(cat log)"
    cmp -s page.html $run/report.html || fault "$run: scion report draws another page"
done
# Without report=N there is none.
[ -e run/report.html ] && fault 'a page that nobody asked for'

# A folder that cannot be made ends the run before its first step.
echo text > file
# shellcheck disable=SC2086
"$scion" train $tiny steps=4 out=refused tensorboard=file > log 2>&1 && fault 'tensorboard=file, which is a file'
holds log 'file'
[ -e refused ] && fault "a refused run left $(ls refused)"
[ $faults -eq 0 ]
