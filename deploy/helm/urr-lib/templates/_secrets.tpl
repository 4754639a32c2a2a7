{{/* Whether secrets are mounted as files, which the service reloads on change, not set as variables. */}}
{{- define "urr-lib.mountsSecrets" -}}
{{- $mounts := true -}}
{{- range list (.Values.global | default dict).mountSecrets .Values.mountSecrets -}}
{{- if kindIs "bool" . -}}{{- $mounts = . -}}{{- end -}}
{{- end -}}
{{- if and $mounts (or .Values.rpc.callers (hasKey .Values "kafka") (include "urr-lib.certificate" .) (include "urr-lib.secretRefs" . | fromYaml)) -}}true{{- end -}}
{{- end }}

{{/* The service's secrets: variable: {name, key}. */}}
{{- define "urr-lib.secretRefs" -}}
{{- $refs := dict -}}
{{- range $variable, $ref := .Values.secrets -}}
{{- if $ref.name -}}{{- $_ := set $refs $variable $ref -}}{{- end -}}
{{- end -}}
{{- with .Values.postgres -}}
{{- $_ := set $refs "DATABASE_URL" (dict "name" .urlSecret "key" "url") -}}
{{- end -}}
{{- range $store, $variable := dict "kafka" "KAFKA_PASSWORD" "redis" "REDIS_PASSWORD" -}}
{{- if hasKey $.Values $store -}}
{{- with (include (printf "urr-lib.%s" $store) $ | fromYaml).passwordSecret -}}
{{- $_ := set $refs $variable (dict "name" . "key" "password") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey .Values "kafka") (has .Chart.Name (include "urr-lib.recordWriters" . | splitList " ")) -}}
{{- $_ := set $refs "EVENT_SIGNING_KEY" (dict "name" (include "urr-lib.recordSecret" (list . .Chart.Name)) "key" "key") -}}
{{- end -}}
{{- range $callee, $peer := .Values.rpc.calls -}}
{{- if ne $peer.address "none" -}}
{{- $name := printf "%s-%s-%s" $.Values.rpc.secretPrefix ($.part | default $.Chart.Name) $callee -}}
{{- $_ := set $refs (printf "%s_RPC_KEY" (upper $callee)) (dict "name" $name "key" "key") -}}
{{- end -}}
{{- end -}}
{{- toYaml $refs -}}
{{- end }}

{{/* Secrets that a library reads from the environment only. */}}
{{- define "urr-lib.librarySecretRefs" -}}
{{- $refs := dict -}}
{{- if hasKey .Values "aws" -}}
{{- with (include "urr-lib.block" (list . "aws") | fromYaml).credentialsSecret -}}
{{- $_ := set $refs "AWS_ACCESS_KEY_ID" (dict "name" . "key" "access-key-id") -}}
{{- $_ := set $refs "AWS_SECRET_ACCESS_KEY" (dict "name" . "key" "secret-access-key") -}}
{{- end -}}
{{- end -}}
{{- toYaml $refs -}}
{{- end }}

{{/* The services that write topics in Kafka, and sign what they write. */}}
{{- define "urr-lib.recordWriters" -}}gateway payment reward ticket worker{{- end }}

{{/* The Secret with a writer's key (member "key") and its public keys (member "public"): (list $ "writer"). */}}
{{- define "urr-lib.recordSecret" -}}
{{- $kafka := include "urr-lib.block" (list (index . 0) "kafka") | fromYaml -}}
{{- printf "%s-%s" ($kafka.keysPrefix | default "urr-events") (index . 1) -}}
{{- end }}

{{/* The Secret with the key of a pair of services: (list $ "caller"). */}}
{{- define "urr-lib.callerSecret" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s" $root.Values.rpc.secretPrefix (index . 1) $root.Chart.Name -}}
{{- end }}

{{/* Secrets as env entries: a reference, or the path of the mounted file. */}}
{{- define "urr-lib.secretEnvironment" -}}
{{- $refs := include "urr-lib.librarySecretRefs" . | fromYaml -}}
{{- $files := dict -}}
{{- $accept := list -}}
{{- $public := list -}}
{{- $certificate := list -}}
{{- if include "urr-lib.mountsSecrets" . -}}
{{- $files = include "urr-lib.secretRefs" . | fromYaml -}}
{{- if .Values.rpc.callers -}}{{- $_ := set $files "RPC_ACCEPT" true -}}{{- end -}}
{{- if hasKey .Values "kafka" -}}{{- $_ := set $files "EVENT_PUBLIC_KEYS" true -}}{{- end -}}
{{- if include "urr-lib.certificate" . -}}{{- $_ := set $files "RPC_TLS" true -}}{{- end -}}
{{- else -}}
{{- $refs = merge $refs (include "urr-lib.secretRefs" . | fromYaml) -}}
{{- range $caller := .Values.rpc.callers -}}
{{- $variable := printf "RPC_KEY_OF_%s" (upper $caller) -}}
{{- $_ := set $refs $variable (dict "name" (include "urr-lib.callerSecret" (list $ $caller)) "key" "key") -}}
{{- $accept = append $accept (printf "%s:$(%s)" $caller $variable) -}}
{{- end -}}
{{- if hasKey .Values "kafka" -}}
{{- range $writer := include "urr-lib.recordWriters" . | splitList " " -}}
{{- $variable := printf "EVENT_KEY_OF_%s" (upper $writer) -}}
{{- $_ := set $refs $variable (dict "name" (include "urr-lib.recordSecret" (list $ $writer)) "key" "public") -}}
{{- $public = append $public (printf "%s:$(%s)" $writer $variable) -}}
{{- end -}}
{{- end -}}
{{- range include "urr-lib.certificateParts" . | fromYamlArray -}}
{{- $variable := printf "RPC_%s" (upper .key | replace "." "_") -}}
{{- $_ := set $refs $variable . -}}
{{- $certificate = append $certificate (printf "%s:$(%s)" .key $variable) -}}
{{- end -}}
{{- end -}}
{{- range $variable, $ref := $refs }}
- name: {{ $variable }}
  valueFrom:
    {{ $ref.from | default "secret" }}KeyRef:
      name: {{ $ref.name }}
      key: {{ $ref.key }}
{{- end }}
{{- with $accept }}
# Composed by the kubelet, so that each pair keeps its own Secret.
- name: RPC_ACCEPT
  value: {{ join "," . | quote }}
{{- end }}
{{- with $public }}
- name: EVENT_PUBLIC_KEYS
  value: {{ join "," . | quote }}
{{- end }}
{{- with $certificate }}
- name: RPC_TLS
  value: {{ join "," . | quote }}
{{- end }}
{{- range $variable, $ref := $files }}
- name: {{ $variable }}_FILE
  value: /etc/urr/secrets/{{ $variable }}
{{- end }}
{{- end }}

{{/*
Secrets as a volume: a file per variable, in the folder RPC_ACCEPT one per caller, in EVENT_PUBLIC_KEYS one per
writer of records, and in RPC_TLS the certificate.
*/}}
{{- define "urr-lib.secretVolume" -}}
- name: secrets
  projected:
    sources:
      {{- range $variable, $ref := include "urr-lib.secretRefs" . | fromYaml }}
      - secret: {name: {{ $ref.name }}, items: [{key: {{ $ref.key }}, path: {{ $variable }}}]}
      {{- end }}
      {{- range $caller := .Values.rpc.callers }}
      - secret: {name: {{ include "urr-lib.callerSecret" (list $ $caller) }}, items: [{key: key, path: RPC_ACCEPT/{{ $caller }}}]}
      {{- end }}
      {{- if hasKey .Values "kafka" }}
      {{- range $writer := include "urr-lib.recordWriters" . | splitList " " }}
      - secret: {name: {{ include "urr-lib.recordSecret" (list $ $writer) }}, items: [{key: public, path: EVENT_PUBLIC_KEYS/{{ $writer }}}]}
      {{- end }}
      {{- end }}
      {{- range include "urr-lib.certificateParts" . | fromYamlArray }}
      - {{ .from }}: {name: {{ .name }}, items: [{key: {{ .key }}, path: RPC_TLS/{{ .key }}}]}
      {{- end }}
{{- end }}
