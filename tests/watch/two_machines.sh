#!/usr/bin/env bash
# Runs a command on two machines, which are network namespaces with a cable between them:
#
#   two_machines.sh COMMAND [ARGUMENT...]
#
# In the arguments, NODE stands for 0 or 1. MASTER_ADDR is the first machine's. Exits with 77 where
# this user may make no namespaces, else with the larger exit status of both. Processes that are left after
# LIMIT seconds (default 240) are listed and killed, ranks so that they write their stacks into the watch's folder.
set -euo pipefail

if [[ -z ${INSIDE_NAMESPACE:-} ]]; then
  unshare --user --map-root-user --mount --net true 2>/dev/null && command -v ip >/dev/null || exit 77
  INSIDE_NAMESPACE=1 exec unshare --user --map-root-user --mount --net "$0" "$@"
fi

mount -t tmpfs tmpfs /run
for node in 0 1; do
  ip netns add "machine$node"
  ip -n "machine$node" link set lo up
done
ip link add cable0 type veth peer name cable1
for node in 0 1; do
  ip link set "cable$node" netns "machine$node" name cable
  ip -n "machine$node" addr add "10.231.0.$((node + 1))/24" dev cable
  ip -n "machine$node" link set cable up
done

end_after_limit() {
  read -rt "${LIMIT:-240}" <> <(:) || true  # no process of its own, which would be left behind
  {
    echo "two_machines.sh: after ${LIMIT:-240} s these still run:"
    ps -o pid,ppid,pgid,stat,wchan:24,etimes,args --forest \
      -p "$(cat <(ip netns pids machine0) <(ip netns pids machine1) | paste -sd ,)"
  } >&2
  for node in 0 1; do
    ip netns pids "machine$node" | xargs --no-run-if-empty kill -ABRT
  done
  sleep 2
  for node in 0 1; do
    ip netns pids "machine$node" | xargs --no-run-if-empty kill -KILL
  done
}
end_after_limit &
limit=$!

export MASTER_ADDR=10.231.0.1 MASTER_PORT=29571 GLOO_SOCKET_IFNAME=cable OMP_NUM_THREADS=1
jobs=()
for node in 0 1; do
  ip netns exec "machine$node" "${@//NODE/$node}" &
  jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do
  wait "$job" || status=$((status > $? ? status : $?))
done
kill "$limit"
exit "$status"
