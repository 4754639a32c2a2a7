#!/usr/bin/env bash
# Builds the missing parts of the cluster: Debian packages by apt, Kubernetes from the Go module
# proxy into the cache folder. The first build takes 5 to 8 minutes on two idle cores.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
say() { printf '[%3ds] %s\n' $SECONDS "$*"; }
die() { echo "cluster: $*" >&2; exit 1; }
mkdir -p "$BIN" "$RUN/log"

packages() {
  local want=() p
  for p in containerd runc containernetworking-plugins iptables nftables conntrack socat iproute2 ethtool; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || want+=("$p")
  done
  [ ${#want[@]} = 0 ] && return
  say "apt-get install ${want[*]}"
  apt-get update -qq || true # a list that cannot be renewed may still do
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${want[@]}" >"$RUN/log/apt.log" 2>&1 ||
    { tail -5 "$RUN/log/apt.log" >&2; die "apt-get failed"; }
}

gobuild() { # gobuild OUTPUT PACKAGE [LDFLAGS]
  [ -x "$BIN/$1" ] && return
  say "go build $1"
  (cd "$SRC" && GOWORK=off CGO_ENABLED=0 GOFLAGS=-mod=readonly nice -n 10 \
    go build -trimpath -ldflags "-s -w ${3-}" -o "$BIN/$1.$$" "$2")
  mv "$BIN/$1.$$" "$BIN/$1" # whole or not at all, whatever ends this and whoever else builds it
  say "built $1: $(stat -c %s "$BIN/$1") bytes"
}

build() {
  local m=${K8S_VERSION#v} major minor x='' v c
  major=${m%%.*} minor=$(cut -d. -f2 <<<"$m")
  for v in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    x+=" -X $v.gitVersion=$K8S_VERSION -X $v.gitMajor=$major -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
  done
  gobuild pause ./cmd/pause
  SRC=$CLUSTER/.. gobuild mkimage ./cmd/mkimage
  gobuild kube ./cmd/kube "$x"
  gobuild coredns ./cmd/coredns
  for c in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    ln -sfn kube "$BIN/$c"
  done
  pack pause urr.local/pause:cluster
  pack coredns urr.local/coredns:cluster
  [ -n "${METRICS-}" ] || return 0
  gobuild metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server
  pack metrics-server urr.local/metrics-server:cluster
}

pack() { # pack PROGRAM IMAGE
  [ "$BIN/$1.tar" -nt "$BIN/$1" ] && return
  mkimage "$BIN/$1.tar.$$" "$2" "$BIN/$1"
  mv "$BIN/$1.tar.$$" "$BIN/$1.tar"
}

packages
build
