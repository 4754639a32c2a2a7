#!/usr/bin/env bash
# Stops the cluster of up.sh: removes its pods, processes, interfaces, mounts and rules, and restores
# the kernel's settings.
#   down.sh           keeps the cluster's state (etcd, images) for the next up.sh
#   down.sh --purge   removes the state too; the programs stay in the cache folder
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
. ./settings.sh

stop() { # stop NAME...: only what up.sh started, by its process id
  local n pid
  for n; do
    pid=$(cat "$RUN/pid/$n" 2>/dev/null) || continue
    rm -f "$RUN/pid/$n"
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "^$n " || continue
    kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || continue 2; sleep 0.1; done
    kill -9 "$pid"
  done
}

stop kubelet kube-proxy
if ctr version >/dev/null 2>&1; then
  for c in $(ctr tasks ls -q); do ctr tasks kill -s SIGKILL "$c"; done >/dev/null 2>&1
  sleep 0.5
  for c in $(ctr tasks ls -q); do ctr tasks delete -f "$c"; done >/dev/null 2>&1
  for c in $(ctr containers ls -q); do ctr containers delete "$c"; done >/dev/null 2>&1
fi
stop kube-scheduler kube-controller-manager kube-apiserver etcd containerd

# The pods' network namespaces: those with an address of this cluster, since other software may use
# CNI here too.
for ns in /var/run/netns/cni-*; do
  ip -n "${ns##*/}" -4 -o addr 2>/dev/null | grep -qF " ${POD_CIDR%.*}." && { umount "$ns" 2>/dev/null; rm -f "$ns"; }
done
ip link del "$POD_IF" 2>/dev/null
ip link del "$NODE_IF" 2>/dev/null
rm -rf "$RUN/cni-state"
kube-proxy --cleanup >/dev/null 2>&1
for ipt in iptables ip6tables; do
  for t in mangle nat filter; do
    # What the kubelet and up.sh left: rules that name a KUBE- chain or the pods' bridge.
    $ipt -t $t -S 2>/dev/null | grep -E -- "^-A .*(KUBE-|CNI-|$POD_IF)" | sed 's/^-A/-D/' |
      while read -r rule; do eval "$ipt -t $t $rule"; done
    for c in $($ipt -t $t -S 2>/dev/null | awk '/^-N (KUBE|CNI)-/{print $2}'); do $ipt -t $t -F "$c"; done
    for c in $($ipt -t $t -S 2>/dev/null | awk '/^-N (KUBE|CNI)-/{print $2}'); do $ipt -t $t -X "$c"; done
  done
done 2>/dev/null
awk '{print $2}' /proc/mounts | grep -E "^($RUN|$SOCKETS)/" | sort -r |
  while read -r m; do umount "$m" 2>/dev/null || umount -l "$m"; done
find /sys/fs/cgroup -depth -type d \( -path '*/kubepods*' -o -path '*/k8s.io*' \) -exec rmdir {} \; 2>/dev/null
[ -s "$RUN/sysctl" ] && sysctl -q -p "$RUN/sysctl" 2>/dev/null
rm -rf "$SOCKETS" "$RUN/kubelet/pods" "$RUN/sysctl"
[ "${1-}" = --purge ] && rm -rf "$RUN"
left=$(pgrep -fc "containerd-shim.* -address $SOCKETS/|^(etcd|kube-[a-z-]+|kubelet) .*$RUN/")
echo "down; $left processes left"
