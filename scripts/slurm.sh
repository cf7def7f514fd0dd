# shellcheck shell=bash
# A Slurm on this machine alone: one controller and some nodes, in a directory of its own. Each node has a host name of
# its own; network and files are those of this machine. Sourced, never run. Needs root, because munge wants a user of
# its own.

slurm_started=()

# slurm_missing: prints what is missing for a Slurm on this machine, or nothing.
slurm_missing() {
    local program
    for program in unshare munged munge slurmctld slurmd slurmstepd srun salloc sbatch; do
        PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
            echo "no $program here"
            return
        }
    done
    [[ $EUID == 0 ]] || echo "not root"
}

# slurm_start DIRECTORY NODES: starts it, and sets the variables by which the commands of Slurm find it. Fails with
# the logs if the nodes are not idle after half a minute.
slurm_start() {
    local dir=$1 nodes=$2 here base n
    here=$(hostname)
    base=$((20000 + $$ % 20000))
    PATH=$PATH:/usr/sbin
    mkdir "$dir/munge" "$dir/state" "$dir/log"
    dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 status=none
    chmod 600 "$dir/munge/key"
    chmod 755 "$dir/munge"
    export MUNGE_SOCKET=$dir/munge/socket SLURM_CONF=$dir/slurm.conf
    munged --foreground --socket="$MUNGE_SOCKET" --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --force >"$dir/log/munged" 2>&1 &
    slurm_started+=($!)
    slurm_configuration "$dir" "$nodes" "$here" "$base" >"$SLURM_CONF"
    slurmctld -D -i >"$dir/log/ctld.out" 2>&1 &
    slurm_started+=($!)
    for ((n = 1; n <= nodes; n++)); do
        mkdir "$dir/spool-n$n"
        # shellcheck disable=SC2016 # for the shell in the namespace
        unshare --uts sh -c 'hostname "$0" && exec slurmd -D -N "$0" -d "$1"' "n$n" "$(command -v slurmstepd)" \
            >"$dir/log/slurmd$n.out" 2>&1 &
        slurm_started+=($!)
    done
    for ((n = 0; n < 150; n++)); do
        [[ $(sinfo -h -t idle -o %D 2>/dev/null) != "$nodes" ]] || return 0
        sleep 0.2
    done
    tail -n 5 "$dir"/log/*
    return 1
}

slurm_configuration() {
    local dir=$1 nodes=$2 here=$3 base=$4 n
    cat <<CONF
ClusterName=mpdtest
SlurmctldHost=$here(127.0.0.1)
SlurmctldPort=$base
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$MUNGE_SOCKET
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
UnkillableStepTimeout=120
CONF
    for ((n = 1; n <= nodes; n++)); do
        echo "NodeName=n$n NodeHostname=n$n NodeAddr=127.0.0.1 Port=$((base + n)) CPUs=4 State=UNKNOWN"
    done
    echo "PartitionName=all Nodes=n[1-$nodes] Default=YES MaxTime=10 State=UP"
}

# slurm_left DIRECTORY: prints the processes of MPD that run in this Slurm, and the run directories of its batch jobs.
slurm_left() {
    local pid
    # pgrep warns about one pattern of more than 15 characters.
    for pid in $(for name in mpd mpdagent mpdman mpdwait mpdboot mpdsweep mpirun; do pgrep -x "$name" || true; done); do
        ! grep -qzF "$1/slurm.conf" "/proc/$pid/environ" 2>/dev/null || ps -o pid=,args= -p "$pid" || true
    done
    find /tmp -maxdepth 1 -user "$EUID" -newer "$1/slurm.conf" \
        \( -name 'mpd-*-n[0-9]-*' -o -name "mpd-*-$(hostname)-*" \) -name 'mpd-*-[0-9]*'
}

# slurm_stop: cancels all jobs and ends all that slurm_start has started.
slurm_stop() {
    local pid n
    scancel -u root 2>/dev/null || true
    for ((n = 0; n < 100; n++)); do
        [[ -n $(squeue -h 2>/dev/null) ]] || break
        sleep 0.1
    done
    for pid in "${slurm_started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${slurm_started[@]}"; do wait "$pid" 2>/dev/null || true; done
    slurm_started=()
}
