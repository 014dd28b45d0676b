#!/usr/bin/env bash
# Runs the catalogue with srun, over gloo and over both MPIs, on a Slurm of one machine that exists
# as long as this script.
#
#   loopback_slurm.sh LOCKSTEP TESTBED PYTHON [SCENARIO...]
#
# Exits 77 with a reason if Slurm and munge are not installed (Debian: slurmctld slurmd slurm-client
# munge) or the user is not root.
set -euo pipefail
lockstep=$1
testbed=$2
python=$3
scenarios=("${@:4}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${here%/tests/launchers}

skip() { echo "loopback_slurm: skipped: $*" >&2; exit 77; }
fail() { echo "loopback_slurm: $*" >&2; tail -n 20 "$folder"/*.log >&2 || true; exit 1; }

for program in munged mungekey slurmctld slurmd srun sinfo; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "there is no $program"
done
[[ $EUID -eq 0 ]] || skip "slurmd needs root"
export PATH=$PATH:/usr/sbin

folder=$(mktemp -d)
daemons=()
end() {
  if ((${#daemons[@]})); then
    kill "${daemons[@]}" 2>/dev/null || true
    wait "${daemons[@]}" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap end EXIT

start() {  # NAME, COMMAND...
  "${@:2}" >>"$folder/$1.log" 2>&1 &
  daemons+=($!)
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

wait_until() {  # COMMAND...
  for _ in $(seq 300); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "waited in vain for: $*"
}

chmod 755 "$folder"
mkdir "$folder"/{state,spool}
mungekey --create --keyfile="$folder/munge.key"
socket=$folder/munge.socket
start munged munged --foreground --force --num-threads=2 --socket="$socket" \
  --key-file="$folder/munge.key" --log-file="$folder/munge.log" \
  --pid-file="$folder/munge.pid" --seed-file="$folder/munge.seed"
wait_until test -S "$socket"

host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
start slurmctld slurmctld -D -i
start slurmd slurmd -D
wait_until bash -c 'sinfo -h -o %T | grep -q idle'

cd "$folder"
srun -n 2 true || fail "srun starts nothing"
"$testbed" run endings/is-killed endings/stops endings/hangs endings/finishes --ranks 3 \
  --out endings --launcher 'srun -n {ranks}' || fail "status $?: endings"

# Open MPI is started through PMIx, MPICH through PMI-2.
declare -A backend=([none]=gloo [pmix]=mpi [pmi2]=mpi)
for mpi in none pmix pmi2; do
  srun --mpi=list 2>&1 | grep -qw "$mpi" || { echo "loopback_slurm: no --mpi=$mpi here" >&2; continue; }
  python3 "$here/same_verdicts.py" "$lockstep" "${backend[$mpi]}" "srun --mpi=$mpi -n {ranks}" \
    "${scenarios[@]}" || fail "the catalogue by srun --mpi=$mpi"
done

# Directly: srun knows the ranks, the report judges.
srun -n 2 "$lockstep" run loss-on-unwrapped-module/bypass --out direct
"$lockstep" report direct || fail "the report of a direct start"

# A batch script has the variables of a rank without being one.
sbatch --wait --ntasks=2 --output="$folder/batch.log" --wrap="
  $testbed run endings/finishes --out in-batch
  $testbed run endings/is-killed --ranks 2 --launcher 'srun -n {ranks}' --out by-batch" >/dev/null ||
  fail "a batch script"
for out in in-batch by-batch; do
  "$testbed" report $out >/dev/null || fail "the report of a batch script: $out"
done
# The scripts of ci/, on one node.
mkdir bin
ln -s "$lockstep" bin/lockstep
printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$python" >bin/torchrun
chmod +x bin/torchrun
export PATH=$folder/bin:$PATH RANKS_PER_NODE=2
submit() {  # SCRIPT, ARGUMENT...: prints its log, returns its status
  local status=0
  sbatch --wait --nodes=1 --output="$folder/batch.log" "$root/ci/$1" "${@:2}" >/dev/null || status=$?
  cat "$folder/batch.log"
  return $status
}
log=$(submit slurm-catalogue.sbatch loss-on-unwrapped-module) || fail "slurm-catalogue.sbatch"
[[ $log == *'Everything is as expected'* ]] || fail "slurm-catalogue.sbatch"
log=$(submit slurm-watch.sbatch "$root/examples/loss_on_unwrapped_module/train.py" --fixed) || fail "slurm-watch.sbatch of a healthy training"
[[ $log == *'in lockstep: '*'compared on 2 of 2 ranks'* ]] || fail "slurm-watch.sbatch of a healthy training"
status=0
log=$(submit slurm-watch.sbatch "$root/examples/loss_on_unwrapped_module/train.py") || status=$?
[[ $status -eq 1 && $log == *'gradients-differ'* ]] || fail "slurm-watch.sbatch of a faulty one: $status"

! pgrep -f "$folder" -a | grep -v -e slurm -e munge -e "$$" || fail "something was left behind"
