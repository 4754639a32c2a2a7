# Settings of up.sh, build.sh and down.sh; ". scripts/cluster/settings.sh" puts kubectl and ctr on PATH.
# shellcheck shell=bash disable=SC2034
CLUSTER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SRC=$CLUSTER/src
# Programs take minutes to build and are shared by all checkouts; the cluster's state belongs to one
# checkout.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/urr-cluster
RUN=$(cd "$CLUSTER/../.." && pwd)/.urr/cluster
K8S_VERSION=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$SRC/go.mod")
# The folder is named after the sources, so that builds of other checkouts are kept beside it.
BIN=$CACHE/bin/$K8S_VERSION-$(cd "$SRC" && cat go.mod go.sum cmd/*/main.go ../../cmd/mkimage/main.go | sha256sum | cut -c1-8)

NODE=urr-node
NODE_IP=10.250.0.1 NODE_IF=urrnode0      # an interface of its own, so that nothing depends on the machine's
POD_CIDR=10.244.0.0/24 POD_GW=10.244.0.1 POD_IF=urrpods0
SVC_CIDR=10.96.0.0/16 SVC_API=10.96.0.1 SVC_DNS=10.96.0.10
API=https://$NODE_IP:6443
ETCD_PORT=23790 ETCD_PEER=23800
PROXY_MODE=${PROXY_MODE:-nftables}       # or iptables
SOCKETS=/run/urr-cluster                 # the paths of sockets must be short

export CONTAINERD_ADDRESS=$SOCKETS/containerd.sock
export CONTAINERD_NAMESPACE=k8s.io       # the kubelet's: "ctr images import app.tar" loads an image
export KUBECONFIG=$RUN/pki/admin.conf
export PATH=$BIN:$PATH
