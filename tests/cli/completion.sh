#!/bin/sh
# Completion: what --complete answers comes from the tables, and bash, zsh and fish make use of it.
#     completion.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
mkdir runs data tm40
: > tm80.db
: > tm80.safetensors
: > input.txt
: > inner.ini
tab=$(printf '\t')

# LINE WORD...: scion --complete WORD... has LINE, or a line that begins with it and a tab; none if LINE begins with !.
answers() {
    line=$1
    shift
    "$scion" --complete "$@" > out 2>&1 || fault "--complete $*: $?"
    case $line in
        !*) grep -q "^${line#!}$tab" out && fault "--complete $*: should not have ${line#!}" ;;
        *) grep -q -e "^$line$tab" -e "^$line\$" out || fault "--complete $*: no $line: $(cat out)" ;;
    esac
}
answers train tr
answers '!eval' tr
answers train ''
answers help ''
answers train help tr
answers shakespeare train ''
answers '!layers=' train ''
answers :files train ''
answers layers= train shakespeare ''
answers layers= train la
answers '!layers=' train layers=3 la
answers rule=scion train shakespeare rule=
answers '!rule=adamw' train shakespeare rule=s
answers rule=scion,adamw sweep mlp rule=scion,ad
answers tied=yes train shakespeare tied=
answers :files train shakespeare data=
answers :files tune shakespeare out=
answers :runs sample ''
answers :runs eval ''
answers :runs resume ''
answers :files report ''
answers :files predict ''
answers jobs= sweep mlp j
answers --retry sweep mlp --
answers --help sweep mlp --
answers show sweep ''
answers steps= resume runs/x st
answers '!lr=' resume runs/x l
answers '!steps=' eval runs/x st
answers batch= eval runs/x ba
answers part=all eval runs/x part=
answers prompt= sample runs/x pr
answers rates reproduce ''
answers train bench ''
answers fish completion ''
"$scion" --complete nonsense x > out 2>&1 || fault 'a command that there is not'
[ -s out ] && fault "a command that there is not: $(cat out)"
refused 2 'bash, zsh or fish' completion
refused 2 'bash, zsh or fish' completion tcsh

# Every command and every switch and key of a command is offered, and its help shows the same ones.
"$scion" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' > commands
while read -r command; do
    "$scion" help "$command" | sed -n 's/^  \([a-z_]*=\)[A-Za-z|]* .*/\1/p; s/^  \(--[a-z-]*\) .*/\1/p' > keys
    while read -r key; do answers "$key" "$command" word "${key%?}"; done < keys
done < commands
[ -s commands ] || fault 'no commands'

# ---- bash: the line up to the cursor; words, keys, values, files; a space unless more follows
PATH=${scion%/*}:$PATH
export PATH
if command -v bash > /dev/null; then
    "$scion" completion bash > scion.bash
    cat > complete.bash <<'END'
. ./scion.bash
compopt() { spaceless=yes; }
# LINE ANSWERS: what a tab at the end of LINE would offer, in sorted words; "+" if no space follows.
try() {
    COMP_LINE=$1 COMP_POINT=${#1} spaceless=
    _scion
    got=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' ')
    [ "$got${spaceless:+ +}" = "$2" ] || echo "FAIL '$1': '$got${spaceless:+ +}', expected '$2'"
}
try 'scion tr' 'train '
try 'scion res' 'resume '
try 'scion help tu' 'tune '
try 'scion train shak' 'shakespeare shakespeare-10m '
try 'scion train shakespeare wid' 'width=  +'
try 'scion train shakespeare rule=us' 'uscion '
try 'scion sweep mlp rule=scion,us' 'scion,uscion '
try 'scion train shakespeare data=in' 'inner.ini input.txt '
try 'scion train shakespeare data=inp' 'input.txt '
try 'scion train shakespeare data=da' 'data/  +'
try 'scion report ru' 'runs/  +'
try 'scion report tm' 'tm40/ tm80.db tm80.safetensors '
try 'scion sample tm' 'tm40/ tm80.safetensors '
try 'scion resume ru' 'runs/  +'
try 'scion tune shakespeare --fo' '--force '
COMP_WORDBREAKS=' '
try 'scion train shakespeare data=inp' 'data=input.txt '
try 'scion train shakespeare rule=us' 'rule=uscion '
[ "$(complete -p scion)" = 'complete -F _scion scion' ] || echo "FAIL $(complete -p scion)"
END
    bash --norc complete.bash > out 2>&1
    [ -s out ] && fault "bash: $(cat out)"
fi

# ---- zsh and fish, if they are here
if command -v zsh > /dev/null; then
    "$scion" completion zsh > _scion
    zsh -f -n _scion > out 2>&1 || fault "zsh: $(cat out)"
    cat > complete.zsh <<'END'
_describe() { eval "print -l -- \"\${(@)$2}\""; }
_files() { print files; }
compset() { }
compdef() { }
. ./_scion
words=(scion train shakespeare $1)
CURRENT=4
_scion
END
    zsh -f complete.zsh rule=u > out 2>&1
    holds out 'rule=uscion:'
    zsh -f complete.zsh data= > out 2>&1
    holds out 'files'
fi
if command -v fish > /dev/null; then
    "$scion" completion fish > scion.fish
    HOME=$dir
    export HOME
    fish --no-config --no-execute scion.fish > out 2>&1 || fault "fish: $(cat out)"
    fish --no-config -c 'source scion.fish; complete -C "scion train shakespeare rule=us"' > out 2>&1
    holds out 'rule=uscion'
    fish --no-config -c 'source scion.fish; complete -C "scion train shakespeare data=inp"' > out 2>&1
    holds out 'data=input.txt'
    fish --no-config -c 'source scion.fish; complete -C "scion tu"' > out 2>&1
    holds out "tune${tab}find lr"
    fish --no-config -c 'source scion.fish; complete -C "scion sample tm"' > out 2>&1
    holds out 'tm40/'
    holds out 'tm80.safetensors'
    grep -q 'tm80.db' out && fault "fish: a ledger is no run: $(cat out)"
fi
[ $faults -eq 0 ]
