#!/usr/bin/env bash
# The platform by Helm on kind: a cluster in Docker with the servers of backends.yaml and the charts with the values of development.
# It ends with the address; run it again to bring a change there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
docker info >/dev/null 2>&1 || {
  echo "kind needs Docker, and there is none that answers here (docker info). Without Docker: make cluster-up, make cluster-test." >&2
  exit 1
}
root=$(cd ../.. && pwd)
tool() { (cd "$root/scripts/tools/helm" && GOWORK=off go tool -n "$1"); }
kind=$(tool kind) helm=$(tool helm)

(cd "$root" && go run ./scripts/cmd/images)
# A file of its own: the user's, and the cluster that kubectl speaks to by itself, stay as they are.
export KUBECONFIG=$root/.urr/kind.kubeconfig
"$kind" get clusters 2>/dev/null | grep -qx urr || "$kind" create cluster --config kind.yaml --wait 2m
"$kind" load image-archive "$root/.urr/images/urr.tar" --name urr
(umask 077 && "$kind" get kubeconfig --name urr >"$KUBECONFIG")

# The node has kubectl, so that this machine need not.
kubectl() { docker exec -i urr-control-plane kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
kubectl create namespace urr --dry-run=client -o yaml | kubectl apply -f -
kubectl label --overwrite namespace urr pod-security.kubernetes.io/enforce=restricted
kubectl -n urr apply -f - <backends.yaml
kubectl -n urr wait --for=condition=Available deployment -l app.kubernetes.io/part-of=urr-backends --timeout=5m
"$helm" upgrade --install urr "$root/deploy/helm/urr" -n urr --wait --timeout 5m \
  --values "$root/deploy/helm/urr/values-development.yaml" --values values.yaml
kubectl -n urr apply -f - <sandbox.yaml
# Images of the same tag are other images after a change.
kubectl -n urr rollout restart deployment -l app.kubernetes.io/part-of=urr
kubectl -n urr rollout status deployment/urr-gateway --timeout=5m
cat <<T

URR is up on kind: http://127.0.0.1:8080/
  KUBECONFIG=$KUBECONFIG; namespace urr; helm test urr -n urr walks the journey; make kind-down removes it.
T
