#!/bin/sh
# Ranks that do not belong together, are killed, stopped, or asked to end: messages name them, the last checkpoint is
# whole, no process is left.
#     mpi_lost.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
. "${0%/*}/opening_mpi"

text 400 > text.txt
text 401 > other.txt
tiny='train shakespeare data=text.txt width=32 head_size=16 layers=1 block=16 batch=4 accum=4 log_every=0 eval_batches=2'

# ---- Refused at the start, by name
# shellcheck disable=SC2086
$mpirun -n 1 "$scion" $tiny steps=4 out=wrong : -n 1 "$scion" $tiny steps=4 lr=0.01 out=wrong > log 2>&1 &&
    fault 'another learning rate is not refused'
holds log 'scion: rank 1 on '
holds log 'this rank has lr=0.01, rank 0 has lr=0.03125'
# shellcheck disable=SC2086
$mpirun -n 2 "$scion" $tiny steps=4 out=wrong : -n 1 "$scion" $tiny steps=4 data=other.txt out=wrong > log 2>&1 &&
    fault 'another setting of data is not refused'
holds log 'rank 2 on '
mkdir a b
cp text.txt a/text.txt
cp other.txt b/text.txt
# shellcheck disable=SC2086
$mpirun -n 1 sh -c "cd a && exec '$scion' $(echo $tiny) steps=4 out=../wrong" : \
    -n 1 sh -c "cd b && exec '$scion' $(echo $tiny) steps=4 out=../wrong" > log 2>&1 && fault 'another file is not refused'
holds log 'rank 1 on '
holds log 'this rank has data '
# shellcheck disable=SC2086
ranks 3 $tiny batch=1 accum=2 steps=4 out=wrong > log 2>&1 && fault '3 ranks for 2 sequences'
holds log 'a step has 2 sequences (batch times accum) for 3 ranks'
# shellcheck disable=SC2086
ranks 2 $tiny nosuch=1 out=wrong > log 2>&1 && fault 'a misspelt setting'
[ -e wrong ] && fault 'a run that was refused left a folder'

# The process of rank $1 of the run in folder $2; those of all its ranks.
process_of() {
    for process in $(left "$2"); do
        cat "/proc/$process/environ" 2> /dev/null | tr '\0' '\n' | grep -qxE "(OMPI_COMM_WORLD|PMI)_RANK=$1" &&
            echo "$process"
    done
}

left() {
    pgrep -x -f "$scion .* out=$1( .*)?"
}

# Waits until nobody is left of the run in folder $1, which takes as long as the launcher wants.
check_gone() {
    tries=0
    while [ -n "$(left "$1")" ] && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
    [ -z "$(left "$1")" ] || { fault "$1: processes are left"; kill -KILL $(left "$1"); }
}

# Begins an endless run of 3 ranks in folder $1 and waits for its first checkpoint.
begin() {
    folder=$1
    shift
    # shellcheck disable=SC2086
    $mpirun -n 3 "$scion" $tiny steps=1000000 save_every=5 out="$folder" "$@" > log 2>&1 &
    launcher=$!
    tries=0
    while ! ls "$folder"/step-*.safetensors > /dev/null 2>&1 && [ $tries -lt 2000 ]; do sleep 0.05; tries=$((tries + 1)); done
    ls "$folder" | grep -q "step-.*safetensors$" || fault "$folder: no checkpoint: $(cat log)"
}

# ---- Killed, and stopped: rank 0 writes the checkpoints
# The launcher notices a killed rank; one that is stopped is missed after comm_timeout, in which a slow machine must start.
for lost in KILL:100 STOP:10; do
    signal=${lost%:*}
    for rank in 1 0; do
        folder=$signal$rank
        begin $folder comm_timeout=${lost#*:}
        victim=$(process_of $rank $folder)
        kill -$signal "$victim" || fault "$folder: rank $rank is not there"
        wait $launcher && fault "$folder: a run that lost a rank ended well"
        grep -qE "rank $rank |RANK $rank |$victim" log || fault "$folder: the rank is not named: $(cat log)"
        [ $signal = KILL ] || holds log "rank $rank (process $victim on "
        check_gone $folder
        "$scion" eval $folder > log 2>&1 || fault "$folder: the last checkpoint: $(cat log)"
    done
done

# ---- Stopped before it joins the others, which wait for it within MPI_Init, where nothing can be sent
for rank in 1 0; do
    # shellcheck disable=SC2086
    timeout 100 $mpirun -n 2 sh -c "case \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} in $rank) kill -STOP \$\$ ;; esac
        exec '$scion' $(echo $tiny) steps=4 comm_timeout=2 out=init$rank" > log 2>&1
    [ $? -eq 124 ] && fault "rank $rank is stopped before MPI_Init: the other waits for ever"
    holds log "scion: rank $((1 - rank)): MPI_Init has not returned for $((4 - 2 * rank)) s (comm_timeout=2)"
    check_gone init$rank
    [ -e init$rank ] && fault "a run that never began left a folder: $(ls init$rank)"
done

# ---- Asked to end: all ranks stop after the same step, and the run is saved
# (Open MPI gives a process a second between SIGTERM and SIGKILL, if it is not told otherwise.)
export OMPI_MCA_odls_base_sigkill_timeout=10
for signal in TERM USR1; do
    begin $signal comm_timeout=100
    # USR1 goes to a rank: launchers differ in what they pass on, and one rank is enough.
    if [ $signal = TERM ]; then kill -TERM $launcher; else kill -USR1 "$(process_of 2 $signal)"; fi
    wait $launcher
    check_gone $signal
    holds log "resume with: scion resume $signal"
    step=$(sed -n 's/^stopped after step \([0-9]*\) of.*/\1/p' log)
    [ -s $signal/step-"$(printf %08d "$step")".safetensors ] || fault "$signal: saved is $(ls $signal), stopped after $step"
    ranks 2 resume $signal steps=$((step + 2)) > log 2>&1 || fault "$signal: resume: $(cat log)"
done

[ $faults -eq 0 ]
