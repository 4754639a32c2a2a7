#!/usr/bin/env bash
# Starts a Kubernetes of one node without Docker: etcd, the control plane, containerd, kubelet,
# kube-proxy and CoreDNS, as processes of this machine. It returns when the node and DNS are ready; run
# it again to start missing processes. Root only.
#   up.sh              METRICS=1 up.sh: also the metrics server, which autoscalers need
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./settings.sh
say() { printf '[%3ds] %s\n' $SECONDS "$*"; }
die() { echo "cluster: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "up.sh needs root: it makes network interfaces and control groups"
if [ -s "$SOCKETS/owner" ] && [ "$(cat "$SOCKETS/owner")" != "$RUN" ] && ctr version >/dev/null 2>&1; then
  die "the cluster of $(cat "$SOCKETS/owner") runs: this machine has one at a time"
fi
mkdir -p "$RUN"/{pki,log,pid,cni,kubelet} "$SOCKETS"
echo "$RUN" >"$SOCKETS/owner"

# The kernel -----------------------------------------------------------------
cgroups() {
  if [ ! -e /sys/fs/cgroup/cgroup.controllers ] && ! mountpoint -q /sys/fs/cgroup/memory; then
    say "mounting cgroups"
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
    if ! grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
      # The controllers belong to version 1 hierarchies mounted elsewhere: join those.
      umount /sys/fs/cgroup 2>/dev/null || true
      mount -t tmpfs -o mode=755 none /sys/fs/cgroup
      local c
      for c in cpu cpuacct cpuset memory devices freezer blkio pids; do
        mkdir -p /sys/fs/cgroup/$c && mount -t cgroup -o $c cgroup /sys/fs/cgroup/$c
      done
    fi
  fi
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    local c controllers
    read -ra controllers </sys/fs/cgroup/cgroup.controllers || true
    for c in "${controllers[@]}"; do
      echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    done
  fi
}

network() {
  # What the kubelet and this script change; down.sh restores it.
  [ -s "$RUN/sysctl" ] || sysctl net.ipv4.ip_forward vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops \
    kernel.keys.root_maxkeys kernel.keys.root_maxbytes >"$RUN/sysctl" 2>/dev/null || true
  sysctl -qw net.ipv4.ip_forward=1
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || die "kernel without br_netfilter"
  ip link show "$NODE_IF" >/dev/null 2>&1 || ip link add "$NODE_IF" type bridge
  ip addr replace "$NODE_IP/32" dev "$NODE_IF"
  ip link set "$NODE_IF" up
  # Pods can reach pods (regardless of Docker's policy for the chain), services and this host, and
  # no external address.
  iptables -C FORWARD -i "$POD_IF" -j REJECT 2>/dev/null || iptables -I FORWARD -i "$POD_IF" -j REJECT
  iptables -C FORWARD -i "$POD_IF" -o "$POD_IF" -j ACCEPT 2>/dev/null || iptables -I FORWARD -i "$POD_IF" -o "$POD_IF" -j ACCEPT
  iptables -C FORWARD ! -i "$POD_IF" -o "$POD_IF" -j ACCEPT 2>/dev/null || iptables -I FORWARD ! -i "$POD_IF" -o "$POD_IF" -j ACCEPT
  cat >"$RUN/cni/10-urr.conflist" <<J
{"cniVersion":"1.0.0","name":"urr","plugins":[
 {"type":"bridge","bridge":"$POD_IF","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"$RUN/cni-state","ranges":[[{"subnet":"$POD_CIDR","gateway":"$POD_GW"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true},"snat":true}]}
J
}

# Certificates ---------------------------------------------------------------
cert() { # cert NAME SUBJECT [EXTENSIONS]
  local n=$RUN/pki/$1
  [ -s "$n.crt" ] && return
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$n.key" -subj "$2" -out "$n.csr" 2>/dev/null
  openssl x509 -req -in "$n.csr" -CA "$RUN/pki/ca.crt" -CAkey "$RUN/pki/ca.key" -CAcreateserial -days 3650 \
    -extfile <(printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s\n' "${3-}") -out "$n.crt" 2>/dev/null
  rm "$n.csr"
}

kubeconfig() { # kubeconfig NAME: for the certificate of that name
  local p=$RUN/pki
  cat >"$p/$1.conf" <<Y
apiVersion: v1
kind: Config
clusters: [{name: urr, cluster: {server: "$API", certificate-authority-data: $(base64 -w0 "$p/ca.crt")}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$p/$1.crt"), client-key-data: $(base64 -w0 "$p/$1.key")}}]
contexts: [{name: urr, context: {cluster: urr, user: $1}}]
current-context: urr
Y
  chmod 600 "$p/$1.conf"
}

pki() {
  local p=$RUN/pki
  [ -s "$p/ca.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
    -subj /CN=urr-cluster-ca -addext keyUsage=critical,keyCertSign,digitalSignature -keyout "$p/ca.key" -out "$p/ca.crt" 2>/dev/null
  [ -s "$p/sa.key" ] || { openssl genrsa -out "$p/sa.key" 2048 2>/dev/null; openssl rsa -in "$p/sa.key" -pubout -out "$p/sa.pub" 2>/dev/null; }
  cert apiserver /CN=kube-apiserver "subjectAltName=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:$SVC_API,IP:$NODE_IP,IP:127.0.0.1"
  cert kubelet-server "/CN=$NODE" "subjectAltName=DNS:$NODE,IP:$NODE_IP"
  cert apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  cert front-proxy-client /CN=front-proxy-client
  cert admin /O=system:masters/CN=kubernetes-admin
  cert controller-manager /CN=system:kube-controller-manager
  cert scheduler /CN=system:kube-scheduler
  cert proxy /CN=system:kube-proxy
  cert kubelet "/O=system:nodes/CN=system:node:$NODE"
  cert kafka /CN=kafka "subjectAltName=IP:$NODE_IP" # of the broker on this host, for pods
  local n
  for n in admin controller-manager scheduler proxy kubelet; do kubeconfig $n; done
}

# Processes ------------------------------------------------------------------
alive() { [ -s "$RUN/pid/$1" ] && kill -0 "$(cat "$RUN/pid/$1")" 2>/dev/null; }
start() { # start NAME COMMAND...
  local n=$1; shift
  alive "$n" && return
  setsid nohup "$@" >"$RUN/log/$n.log" 2>&1 </dev/null &
  echo $! >"$RUN/pid/$n"
}
await() { # await SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "timed out waiting for $what (logs: $RUN/log)"
    sleep 0.3
  done
  say "$what"
}

containerd_up() {
  # Images are imported; a missing image is never pulled from any registry.
  mkdir -p "$RUN/registries/_default"
  printf '[host."http://127.0.0.1:9"]\n  capabilities = ["pull", "resolve"]\n' >"$RUN/registries/_default/hosts.toml"
  cat >"$RUN/containerd.toml" <<T
version = 2
root = "$RUN/containerd"
state = "$SOCKETS/containerd"
[grpc]
  address = "$SOCKETS/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$RUN/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "urr.local/pause:cluster"
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  # Where root lacks CAP_SYS_RESOURCE no process may lower its OOM score, and a pod's sandbox (-998)
  # would fail to start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$RUN/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
T
  HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 start containerd containerd -c "$RUN/containerd.toml"
  await 30 "containerd answers" ctr version
  local t
  for t in "$BIN"/*.tar; do ctr images import "$t" >/dev/null; done
}

control_plane_up() {
  local p=$RUN/pki
  start etcd etcd --name urr --data-dir "$RUN/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls "http://127.0.0.1:$ETCD_PEER" --initial-advertise-peer-urls "http://127.0.0.1:$ETCD_PEER" \
    --initial-cluster "urr=http://127.0.0.1:$ETCD_PEER"
  start kube-apiserver kube-apiserver --etcd-servers "http://127.0.0.1:$ETCD_PORT" \
    --bind-address "$NODE_IP" --advertise-address "$NODE_IP" --secure-port 6443 \
    --service-cluster-ip-range "$SVC_CIDR" --allow-privileged=true \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
    --client-ca-file "$p/ca.crt" --tls-cert-file "$p/apiserver.crt" --tls-private-key-file "$p/apiserver.key" \
    --kubelet-certificate-authority "$p/ca.crt" --kubelet-preferred-address-types InternalIP \
    --kubelet-client-certificate "$p/apiserver-kubelet-client.crt" --kubelet-client-key "$p/apiserver-kubelet-client.key" \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$p/sa.pub" --service-account-signing-key-file "$p/sa.key" \
    --requestheader-client-ca-file "$p/ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-extra-headers-prefix X-Remote-Extra- --requestheader-group-headers X-Remote-Group --requestheader-username-headers X-Remote-User \
    --proxy-client-cert-file "$p/front-proxy-client.crt" --proxy-client-key-file "$p/front-proxy-client.key"
  await 90 "API server is ready" kubectl get --raw /readyz
  start kube-controller-manager kube-controller-manager --kubeconfig "$p/controller-manager.conf" \
    --authentication-kubeconfig "$p/controller-manager.conf" --authorization-kubeconfig "$p/controller-manager.conf" \
    --bind-address 127.0.0.1 --leader-elect=false --use-service-account-credentials=true \
    --root-ca-file "$p/ca.crt" --service-account-private-key-file "$p/sa.key" \
    --cluster-signing-cert-file "$p/ca.crt" --cluster-signing-key-file "$p/ca.key" \
    --service-cluster-ip-range "$SVC_CIDR"
  start kube-scheduler kube-scheduler --kubeconfig "$p/scheduler.conf" \
    --authentication-kubeconfig "$p/scheduler.conf" --authorization-kubeconfig "$p/scheduler.conf" \
    --bind-address 127.0.0.1 --leader-elect=false
}

node_up() {
  local p=$RUN/pki
  echo 'options ndots:1' >"$RUN/resolv.conf"
  # Images cannot be pulled again, so they must never be garbage-collected.
  cat >"$RUN/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $p/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $p/kubelet-server.crt
tlsPrivateKeyFile: $p/kubelet-server.key
cgroupDriver: cgroupfs
clusterDNS: [$SVC_DNS]
clusterDomain: cluster.local
resolvConf: $RUN/resolv.conf
containerRuntimeEndpoint: unix://$CONTAINERD_ADDRESS
healthzBindAddress: 127.0.0.1
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 200Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
volumePluginDir: $RUN/volumeplugins
# A changed Secret reaches the files of its pods within 15 s. The default, one minute, would make a
# test of a key rotation wait for minutes.
syncFrequency: 10s
Y
  start kubelet kubelet --config "$RUN/kubelet.yaml" --kubeconfig "$p/kubelet.conf" --root-dir "$RUN/kubelet" \
    --cert-dir "$RUN/kubelet-certs" --node-ip "$NODE_IP" --hostname-override "$NODE"
  cat >"$RUN/kube-proxy.yaml" <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: $PROXY_MODE
clientConnection: {kubeconfig: $p/proxy.conf}
clusterCIDR: $POD_CIDR
hostnameOverride: $NODE
nodePortAddresses: [primary]
bindAddress: $NODE_IP
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
Y
  start kube-proxy kube-proxy --config "$RUN/kube-proxy.yaml"
  await 60 "node is registered" kubectl get node "$NODE"
  kubectl wait --for=condition=Ready "node/$NODE" --timeout=90s >/dev/null
  say "node is Ready"
}

dns_up() {
  sed -e "s/@SVC_DNS@/$SVC_DNS/" coredns.yaml | kubectl apply -f - >/dev/null
  kubectl -n kube-system rollout status deployment/coredns --timeout=120s >/dev/null
  await 60 "DNS is ready" timeout 2 bash -c "exec 3<>/dev/tcp/$SVC_DNS/53" # a state kept from before says ready too early
  [ -n "${METRICS-}" ] || return 0
  kubectl apply -f metrics-server.yaml >/dev/null
  kubectl -n kube-system rollout status deployment/metrics-server --timeout=120s >/dev/null
  await 60 "metrics server is ready" kubectl top node
}

./build.sh
cgroups
network
pki
control_plane_up & control_plane=$!
containerd_up
wait $control_plane
node_up
dns_up
say "the cluster is up: . scripts/cluster/settings.sh, then kubectl"
