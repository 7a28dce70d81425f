#!/bin/sh
# Several hosts, made of network namespaces: the rank on each has all cores of its host; they train as one process does, and
# go on with each other's runs; when a host goes away the ranks end in the stated time, and the last checkpoint is whole.
#     hosts.sh PATH-OF-SCION PRESETS
. "${0%/*}/opening"
. "${0%/*}/opening_mpi"
. "${0%/*}/opening_hosts"
hosts 4

text 400 > text.txt
tiny='train shakespeare data=text.txt width=64 head_size=32 layers=2 block=16 batch=4 accum=4 log_every=1 eval_every=2
    norm_every=0 save_every=2 eval_batches=3'
last=step-00000004.safetensors

# NAME HOSTS ARGUMENT...: a command that must succeed, on so many hosts, or without mpirun.
run() {
    name=$1 number=$2
    shift 2
    if [ "$number" -eq 1 ]; then "$scion" "$@" > log 2>&1; else on_hosts "$number" "$@" > log 2>&1; fi ||
        fault "$name: $number hosts: $(cat log)"
}

ranks_of() {
    pgrep -x -f "$scion .* out=$1( .*)?"
}

# FOLDER SETTING...: begins an endless run on 2 hosts in the background and waits for its first checkpoint.
begin() {
    folder=$1
    shift
    rm -f log
    # shellcheck disable=SC2086
    on_hosts 2 $tiny log_every=0 eval_every=0 steps=1000000 out="$folder" "$@" > log 2>&1 &
    launcher=$!
    tries=0
    # older checkpoints are removed meanwhile
    until ls "$folder" 2> /dev/null | grep -q 'step-.*safetensors$'; do
        [ $tries -lt 600 ] || { fault "$folder: no checkpoint: $(cat log)"; break; }
        sleep 0.1
        tries=$((tries + 1))
    done
}

# Waits until no rank of the run in folder $1 is left.
wait_gone() {
    tries=0
    while [ -n "$(ranks_of "$1")" ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
    [ -z "$(ranks_of "$1")" ] || fault "$1: ranks are left: $(cat log)"
}

# ---- The same losses and bits as one process
for number in 1 2 4; do
    # shellcheck disable=SC2086
    run bits$number $number $tiny steps=4 deterministic=yes out=bits$number
done
same bits1 bits2
same bits1 bits4
holds log 'ranks: 4, 1 on this host'
# shellcheck disable=SC2086
run near2 2 $tiny steps=4 out=near2
near bits1 near2 1e-5

# ---- Runs that go on with other numbers of hosts
# shellcheck disable=SC2086
run moves 2 $tiny steps=4 deterministic=yes max_minutes=1e-9 out=moves1
cp -r moves1 moves4
for number in 1 4; do
    run "resumed by $number" $number resume moves$number max_minutes=0
    same bits1 moves$number
done

# ---- Cores: by default Open MPI binds a rank to one
(
    unset OMP_NUM_THREADS OMPI_MCA_hwloc_base_binding_policy
    begin cores
    holds log "ranks: 2, 1 on this host"
    cores=$(nproc)
    tr '\n' ' ' < log | grep -qE " $cores +threads?," || fault "a rank of two hosts has not $cores threads: $(cat log)"
    for process in $(ranks_of cores); do
        cat /proc/"$process"/task/*/status | grep '^Cpus_allowed_list' | sort -u > found
        grep '^Cpus_allowed_list' /proc/$$/status | cmp -s - found || fault "the threads of a rank run on $(cat found)"
    done
    # shellcheck disable=SC2046
    kill -TERM $(ranks_of cores)
    wait $launcher
    [ $faults -eq 0 ]
) || faults=$((faults + 1))

# ---- A host that goes away: rank 0 gives up after comm_timeout seconds, a rank that cannot reach it after twice as many.
# mpirun itself may wait for minutes for a host that it does not reach: the link comes back for it.
for lost in 2 1; do
    folder=link$lost
    begin $folder comm_timeout=3
    link $lost down
    wait_gone $folder
    link $lost up
    wait $launcher && fault "$folder: a run that lost a host ended well"
    grep -qE '^scion: rank 0: rank 1 \(process [0-9]+ on host2\) has not answered for 3 s' log || fault "$folder: $(cat log)"
    grep -qE '^scion: rank 1: rank 0 \(process [0-9]+ on host1\) has not answered for 6 s' log || fault "$folder: $(cat log)"
    holds log "scion: the last checkpoint is $folder/step-"
done
begin killed comm_timeout=3
# shellcheck disable=SC2046
kill -KILL $(ip netns pids "$net-2")
wait_gone killed
wait $launcher && fault 'killed: a run that lost a host ended well'
for folder in link1 link2 killed; do
    "$scion" eval $folder > log 2>&1 || fault "$folder: the last checkpoint: $(cat log)"
    step=$(sed -n 's/^step \([0-9]*\) .*/\1/p' log)
    run "$folder: resume" 2 resume $folder steps=$((step + 2))
done

[ $faults -eq 0 ]
