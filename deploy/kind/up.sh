#!/usr/bin/env bash
# Installs the platform with Helm on kind, a cluster in Docker: the backends of backends.yaml, the
# charts with development values, and the demo sale. It prints the address at the end; run it again to
# deploy a change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
docker info >/dev/null 2>&1 || {
  echo "kind needs Docker, and there is none that answers here (docker info). Without Docker: make cluster-up, make cluster-test." >&2
  exit 1
}
root=$(cd ../.. && pwd)
url=http://127.0.0.1:8070 # the host port of kind.yaml
tool() { (cd "$root/scripts/tools/helm" && GOWORK=off go tool -n "$1"); }
kind=$(tool kind) helm=$(tool helm)

(cd "$root" && go run ./scripts/cmd/images)
# Uses a kubeconfig of its own, so that the user's kubeconfig and current context do not change.
export KUBECONFIG=$root/.urr/kind.kubeconfig
"$kind" get clusters 2>/dev/null | grep -qx urr || "$kind" create cluster --config kind.yaml --wait 2m
"$kind" load image-archive "$root/.urr/images/urr.tar" --name urr
(umask 077 && "$kind" get kubeconfig --name urr >"$KUBECONFIG")

# Uses the node's kubectl, so that the host needs none.
kubectl() { docker exec -i urr-control-plane kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
kubectl create namespace urr --dry-run=client -o yaml | kubectl apply -f -
kubectl label --overwrite namespace urr pod-security.kubernetes.io/enforce=restricted

# A password for each service in Kafka, and the certificate of the broker, once.
exists() { kubectl -n urr get "$@" >/dev/null 2>&1; }
for service in $(sed -n 's/^allow \([a-z]*\) .*/\1/p' ../helm/kafka-acls.sh | sort -u); do
  exists secret "urr-kafka-$service" ||
    kubectl -n urr create secret generic "urr-kafka-$service" --from-literal="password=$(openssl rand -hex 24)"
done
exists configmap kafka-certificate || {
  pem=$(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
    -subj /CN=kafka -addext subjectAltName=DNS:kafka -keyout - 2>/dev/null)
  kubectl -n urr create secret generic kafka-tls --from-literal="kafka.pem=$pem" --dry-run=client -o yaml | kubectl apply -f -
  kubectl -n urr create configmap kafka-certificate --from-literal="kafka.pem=$(openssl x509 <<<"$pem")"
}
kubectl -n urr apply -f - <backends.yaml
kubectl -n urr apply -f - <sandbox.yaml # its pod starts once the charts have made its Secret
kubectl -n urr wait --for=condition=Available deployment -l app.kubernetes.io/part-of=urr-backends --timeout=5m
kubectl -n urr exec deployment/kafka -- bash -c "$(<../helm/kafka-acls.sh)" bash \
  /opt/kafka/bin/kafka-acls.sh --bootstrap-server localhost:9094 >/dev/null
installed=$("$helm" list -n urr --short)
"$helm" upgrade --install urr "$root/deploy/helm/urr" -n urr --wait --timeout 5m \
  --values "$root/deploy/helm/urr/values-development.yaml" --values values.yaml
# A rebuilt image has the same tag, so the pods of an earlier run must be restarted.
[ -z "$installed" ] || kubectl -n urr rollout restart deployment -l app.kubernetes.io/part-of=urr
for deployment in $(kubectl -n urr get deployments -l 'app.kubernetes.io/part-of in (urr, urr-backends)' -o name); do
  kubectl -n urr rollout status "$deployment" --timeout=5m
done
(cd "$root" && go run ./scripts/cmd/dev seed "$url")
cat <<T

URR is up on kind: $url/
  KUBECONFIG=$KUBECONFIG; namespace urr; helm test urr -n urr walks the journey; make kind-down removes it.
T
