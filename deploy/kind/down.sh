#!/usr/bin/env bash
# Deletes the cluster that up.sh created.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts/tools/helm"
docker info >/dev/null 2>&1 || { echo "there is no Docker that answers here, so there is no kind cluster either" >&2; exit 1; }
export KUBECONFIG=$PWD/../../../.urr/kind.kubeconfig
GOWORK=off go tool kind delete cluster --name urr
rm -f "$KUBECONFIG"
