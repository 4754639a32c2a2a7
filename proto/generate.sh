#!/usr/bin/env bash
# Regenerates gen/ from the .proto files. Third-party .proto files come from the module cache, at the versions below;
# $1 is the folder with buf and its plugins (scripts/tools pins them).
set -euo pipefail
googleapis=github.com/grpc-ecosystem/grpc-gateway@v1.16.0 # the last release that carries google/api/*.proto
protovalidate=github.com/bufbuild/protovalidate@v1.2.2

bin=$(realpath "${1:?usage: generate.sh FOLDER_OF_THE_PLUGINS}")
cd "$(dirname "$0")"
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p'; }
rm -rf third_party
mkdir -p third_party/google
cp -r "$(module $googleapis)/third_party/googleapis/google/api" third_party/google/
cp -r "$(module $protovalidate)/proto/protovalidate/buf" third_party/
chmod -R u+w third_party
export PATH=$bin:$PATH
buf lint
buf generate
