#!/bin/sh
# What conform does with files that are not as they should be: every fault is found, named and told by the exit
# status, and nothing that is optional counts.
#     conform_cli.sh PATH-OF-CONFORM
set -u
conform=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
faults=0

fault() {
    echo "FAIL $1: $2"
    sed 's/^/    /' "$dir/out"
    faults=$((faults + 1))
}

# check NAME EXIT-STATUS LAST-LINE TEXT: runs conform on the lines of standard input; the output must hold TEXT.
check() {
    cat > "$dir/set.jsonl"
    "$conform" "$dir/set.jsonl" > "$dir/out" 2>&1
    status=$?
    [ $status -eq "$2" ] || fault "$1" "exit status $status, expected $2"
    [ "$(tail -n 1 "$dir/out")" = "$3" ] || fault "$1" "the last line should be '$3'"
    grep -qF -e "$4" "$dir/out" || fault "$1" "the output should hold '$4'"
}

# usage NAME EXIT-STATUS TEXT ARGUMENT...
usage() {
    name=$1 expected=$2 text=$3
    shift 3
    "$conform" "$@" > "$dir/out" 2>&1
    status=$?
    [ $status -eq "$expected" ] || fault "$name" "exit status $status, expected $expected"
    grep -qF -e "$text" "$dir/out" || fault "$name" "the output should hold '$text'"
}

usage 'help' 0 'Usage: conform' --help
usage 'no arguments' 2 'Usage: conform'
usage 'unknown option' 2 "option '-x' is not known" -x
usage 'no such file' 1 "FAIL $dir/absent.jsonl" "$dir/absent.jsonl"

# Records that hold, by hand: sign over d_in, a linear schedule, one step of signed descent.
sign='"kind":"lmo","norm":"Sign","shape":[1,2],"grad":[3,-4],"tol":1e-5'
linear='"kind":"schedule","schedule":"linear","n":4,"gamma":2,"k":[0,1,4],"tol":1e-6'
step='"kind":"paper_trajectory","method":"uscg","alpha":1.0,"gamma":0.5,"steps":1,"tol":1e-5'
run='"kind":"trajectory","optimizer":"Scion","momentum":0.5,"unconstrained":true,"lr":[0.5],"steps":1,"tol":1e-5'

check 'good records' 0 '4 passed, 0 failed' '4 passed' <<EOF
{"name":"a","options":{"normalized":true},$sign,"lmo":[0.5,-0.5],"later":{"key":[1]}}

{"name":"b",$linear,"value":[2,1.5,0]}
   
{"name":"c",$step,"params":[{"shape":[1],"norm":"linf","rho":2,"x0":[1],"grads":[[-4]],"x":[[2]],"state":[-4]}]}
{"name":"d",$run,"params":[{"shape":[1,2],"norm":"Sign","scale":4,"w0":[1,1],"grads":[[3,-4]],"weights":[[0,2]]}]}
EOF

usage 'a line per record' 0 "pass $dir/set.jsonl:3 b" -v "$dir/set.jsonl"
usage 'two files' 0 '8 passed, 0 failed' "$dir/set.jsonl" "$dir/set.jsonl"

check 'an altered number' 1 '0 passed, 1 failed' 'a: lmo: largest error 0.2, tolerance 1e-05' <<EOF
{"name":"a",$sign,"lmo":[0.4,-0.5]}
EOF
check 'not quite zero' 1 '0 passed, 1 failed' 'lmo: largest error inf' <<EOF
{"name":"a",$sign,"lmo":[0,0]}
EOF
check 'an altered weight' 1 '0 passed, 1 failed' 'params[0] weights[0]: largest error 0.1' <<EOF
{"name":"c",$step,"params":[{"shape":[2],"norm":"linf","x0":[1,1],"grads":[[3,-4]],"x":[[0.65,1.5]]}]}
EOF
check 'an altered state' 1 '0 passed, 1 failed' 'params[0] state: largest error 0.25' <<EOF
{"name":"c",$step,"params":[{"shape":[2],"norm":"linf","x0":[1,1],"grads":[[3,-4]],"x":[[0.5,1.5]],"state":[2,-4]}]}
EOF
check 'the library refuses' 1 '0 passed, 1 failed' 'scion_lmo:' <<EOF
{"name":"a","kind":"exact_lmo","norm":"RMS->RMS","rho":-1,"shape":[1,2],"input":[3,4],"lmo_added":[1,1],"tol":1e-5}
EOF

# What is not known is a failure, unless it is optional.
check 'unknown kind' 1 '0 passed, 1 failed' "kind 'dance' is not known" <<EOF
{"name":"a","kind":"dance","tol":1e-5}
EOF
check 'unknown norm' 1 '0 passed, 1 failed' "norm 'Nuclear' is not known" <<EOF
{"name":"a","kind":"lmo","norm":"Nuclear","shape":[1],"grad":[1],"lmo":[1],"tol":1e-5}
EOF
check 'unknown paper norm' 1 '0 passed, 1 failed' "norm '3->7' is not known" <<EOF
{"name":"a","kind":"norm_dual","norm":"3->7","shape":[1],"input":[1],"norm_value":1,"dual_value":1,"tol":1e-5}
EOF
check 'unknown option of a norm' 1 '0 passed, 1 failed' "option 'scaled' of Sign is not known" <<EOF
{"name":"a","options":{"scaled":true},$sign,"lmo":[0.5,-0.5]}
EOF
check 'unknown method' 1 '0 passed, 1 failed' "method 'lion' is not known" <<EOF
{"name":"a","kind":"paper_trajectory","method":"lion","gamma":1,"steps":1,"params":[],"tol":1e-5}
EOF
check 'unknown alpha' 1 '0 passed, 1 failed' "alpha '1/k' is not known" <<EOF
{"name":"a","kind":"paper_trajectory","method":"uscg","alpha":"1/k","gamma":1,"steps":1,"params":[],"tol":1e-5}
EOF
check 'unknown optimizer' 1 '0 passed, 1 failed' "optimizer 'Adam' is not known" <<EOF
{"name":"a","kind":"trajectory","optimizer":"Adam","momentum":1,"lr":[1],"steps":1,"params":[],"tol":1e-5}
EOF
check 'unknown schedule' 1 '0 passed, 1 failed' "schedule 'staircase' is not known" <<EOF
{"name":"a","kind":"schedule","schedule":"staircase","n":4,"k":[0],"value":[1],"tol":1e-6}
EOF
check 'unknown quantity' 1 '0 passed, 1 failed' "quantity 'trace' is not known" <<EOF
{"name":"a","kind":"init_property","norm":"Sign","shape":[2,2],"quantity":"trace","value":1,"rho":1,"tol":1e-5}
EOF
check 'unknown activation' 1 '0 passed, 1 failed' "activation 'Swish' is not known" <<EOF
{"name":"activation_Swish","kind":"activation","z":[0],"value":[0],"tol":1e-6}
EOF

check 'optional records' 0 '0 passed, 0 failed' 'differs c: kind' <<EOF
{"name":"a",$sign,"lmo":[0.5,-0.5],"note":"agreeing"}
{"name":"b",$sign,"lmo":[9,9],"quirk":"differing"}
{"name":"c","kind":"dance","tol":1e-5,"note":"not known"}
EOF
grep -q 'agrees  a: \[agreeing\]' "$dir/out" || fault 'optional records' 'a should agree'
grep -q 'differs b: lmo: largest error .*\[differing\]' "$dir/out" || fault 'optional records' 'b should differ'

# What cannot be read is a failure in any case, and its place is told.
check 'truncated line' 1 '1 passed, 1 failed' "FAIL $dir/set.jsonl:2 (no name): not JSON" <<EOF
{"name":"a",$sign,"lmo":[0.5,-0.5]}
{"name":"b",$sign,"lmo":[0.5,
EOF
check 'not an object' 1 '0 passed, 1 failed' 'set.jsonl:1 (no name): not a JSON object' <<EOF
[1, 2]
EOF
check 'not a number' 1 '0 passed, 1 failed' 'not JSON' <<EOF
{"name":"a",$sign,"lmo":[NaN,-0.5]}
EOF
check 'wrong length' 1 '0 passed, 1 failed' "'lmo' has 1 values, expected 2" <<EOF
{"name":"a",$sign,"lmo":[0.5]}
EOF
check 'wrong length, optional' 1 '0 passed, 1 failed' "'lmo' has 3 values, expected 2" <<EOF
{"name":"a",$sign,"lmo":[0.5,-0.5,1],"note":"optional"}
EOF
check 'too few gradients' 1 '0 passed, 1 failed' "2 'grads' and 1 'x' for 1 steps" <<EOF
{"name":"c",$step,"params":[{"shape":[1],"norm":"linf","x0":[1],"grads":[[3],[3]],"x":[[0]]}]}
EOF
check 'a string among numbers' 1 '0 passed, 1 failed' "'lmo' holds something that is not a number at index 1" <<EOF
{"name":"a",$sign,"lmo":[0.5,"x"]}
EOF
check 'a negative side' 1 '0 passed, 1 failed' "'shape' holds -1" <<EOF
{"name":"a","kind":"lmo","norm":"Sign","shape":[-1,2],"grad":[1,1],"lmo":[1,1],"tol":1e-5}
EOF
check 'no tolerance' 1 '0 passed, 1 failed' "'tol' is absent" <<EOF
{"name":"a","kind":"lmo","norm":"Sign","shape":[1],"grad":[1],"lmo":[1]}
EOF
check 'no parameters' 1 '0 passed, 1 failed' "'params' is empty" <<EOF
{"name":"c",$step,"params":[]}
EOF
check 'no records' 1 '0 passed, 1 failed' 'no records' <<EOF

EOF

[ "$faults" -eq 0 ] && echo 'conform_cli: all checks passed'
[ "$faults" -eq 0 ]
