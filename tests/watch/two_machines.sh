#!/usr/bin/env bash
# Runs a command on two machines, which are network namespaces with a cable between them:
#
#   two_machines.sh COMMAND [ARGUMENT...]
#
# In the arguments, NODE stands for 0 or 1. MASTER_ADDR is the first machine's. Exits with 77 where
# this user may make no namespaces, else with the larger exit status of both.
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

export MASTER_ADDR=10.231.0.1 MASTER_PORT=29571 GLOO_SOCKET_IFNAME=cable OMP_NUM_THREADS=1
for node in 0 1; do
  ip netns exec "machine$node" "${@//NODE/$node}" &
done
status=0
for job in $(jobs -p); do
  wait "$job" || status=$((status > $? ? status : $?))
done
exit "$status"
