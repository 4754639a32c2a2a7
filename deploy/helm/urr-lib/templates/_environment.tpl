{{/* A value as the text of a variable. Helm parses numbers as floats: 1000000 would become 1e+06. */}}
{{- define "urr-lib.text" -}}
{{- if kindIs "slice" . -}}{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}{{ int64 . }}
{{- else -}}{{ . }}
{{- end -}}
{{- end }}

{{/* Variables that are not secret, sorted, as NAME: value. Empty values are left to the service's default. */}}
{{- define "urr-lib.environment" -}}
{{- $env := dict -}}
{{- range $part := list "process" "peers" "stores" -}}
{{- $env = merge $env (include (printf "urr-lib.environment.%s" $part) $ | fromYaml) -}}
{{- end -}}
{{- range $name, $value := .Values.config -}}
{{- $_ := set $env $name (include "urr-lib.text" $value) -}}
{{- end -}}
{{- $given := dict -}}
{{- range $name, $value := $env -}}
{{- if ne $value "" -}}{{- $_ := set $given $name $value -}}{{- end -}}
{{- end -}}
{{- toYaml $given -}}
{{- end }}

{{- define "urr-lib.environment.process" -}}
OPS_ADDR: {{ printf ":%s" (include "urr-lib.port.ops" .) | quote }}
{{- if eq .Values.serves "http" }}
HTTP_ADDR: {{ printf ":%s" (include "urr-lib.port.http" .) | quote }}
{{- else if eq .Values.serves "grpc" }}
GRPC_ADDR: {{ printf ":%s" (include "urr-lib.port.grpc" .) | quote }}
{{- end }}
{{- if not (include "urr-lib.certificate" .) }}
RPC_PLAIN: mesh
{{- end }}
{{- $telemetry := include "urr-lib.block" (list . "telemetry") | fromYaml }}
LOG_LEVEL: {{ $telemetry.logLevel | default "info" | quote }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ $telemetry.otlpEndpoint | default "" | quote }}
{{- if $telemetry.profiles }}
PPROF: "true"
{{- end }}
{{- with $telemetry.traceRatio }}
OTEL_TRACES_SAMPLER: parentbased_traceidratio
OTEL_TRACES_SAMPLER_ARG: {{ . | quote }}
{{- end }}
{{- if include "urr-lib.authorities" . }}
# In addition to the public certificates, whose file the image names.
SSL_CERT_DIR: /etc/urr/authorities
{{- end }}
DRAIN: {{ printf "%vs" .Values.shutdown.drainSeconds | quote }}
SHUTDOWN_TIMEOUT: {{ printf "%vs" .Values.shutdown.timeoutSeconds | quote }}
{{- with .Values.resources.limits.memory }}
# Nine tenths of the limit: Go collects garbage more often before the kernel kills the process.
{{- $unit := get (dict "Ki" 1 "Mi" 1024 "Gi" 1048576) (regexFind "[KMG]i$" .) }}
GOMEMLIMIT: {{ printf "%dKiB" (div (mul (regexFind "^[0-9]+" . | int64) $unit 9) 10) | quote }}
{{- end }}
{{- end }}

{{/* Addresses of the services that this one calls: headless Services, for client-side balancing. */}}
{{- define "urr-lib.environment.peers" -}}
{{- range $callee, $peer := .Values.rpc.calls }}
{{- if ne $peer.address "none" }}
{{- $own := printf "dns:///%s-headless:%s" (include "urr-lib.fullnameOf" (list $ $callee)) (include "urr-lib.port.grpc" $) }}
{{ upper $callee }}_ADDR: {{ $peer.address | default $own | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "urr-lib.environment.stores" -}}
{{- if hasKey .Values "kafka" }}
{{- $kafka := include "urr-lib.kafka" . | fromYaml }}
KAFKA_BROKERS: {{ join "," $kafka.brokers | quote }}
KAFKA_REPLICATION_FACTOR: {{ $kafka.replicationFactor | default 3 | int64 | quote }}
KAFKA_TLS: {{ $kafka.tls | default false | quote }}
KAFKA_SASL: {{ $kafka.sasl | default "" | quote }}
KAFKA_PLAIN: {{ $kafka.plain | default "" | quote }}
KAFKA_USERNAME: {{ $kafka.username | default "" | quote }}
KAFKA_TOPIC_PREFIX: {{ $kafka.prefix | default "" | quote }}
KAFKA_GROUP_PREFIX: {{ $kafka.prefix | default "" | quote }}
{{- end }}
{{- if hasKey .Values "redis" }}
{{- $redis := include "urr-lib.block" (list . "redis") | fromYaml }}
REDIS_ADDRS: {{ join "," $redis.addresses | quote }}
REDIS_CLUSTER: {{ $redis.cluster | default false | quote }}
REDIS_DB: {{ $redis.database | default 0 | quote }}
REDIS_TLS: {{ $redis.tls | default false | quote }}
REDIS_USERNAME: {{ $redis.username | default "" | quote }}
REDIS_POOL_SIZE: {{ include "urr-lib.text" ($redis.poolSize | default "") | quote }}
{{- end }}
{{- if hasKey .Values "aws" }}
AWS_REGION: {{ (include "urr-lib.block" (list . "aws") | fromYaml).region | default "" | quote }}
{{- end }}
{{- if hasKey .Values "dynamodb" }}
{{- $dynamodb := include "urr-lib.block" (list . "dynamodb") | fromYaml }}
DYNAMODB_ENDPOINT: {{ $dynamodb.endpoint | default "" | quote }}
DYNAMODB_PREFIX: {{ $dynamodb.prefix | default "" | quote }}
DYNAMODB_PITR: {{ $dynamodb.pointInTimeRecovery | default false | quote }}
{{- end }}
{{- with .Values.sqs }}
SQS_ENABLED: {{ .enabled | quote }}
SQS_QUEUE_URL: {{ .queueURL | quote }}
SQS_ENDPOINT: {{ .endpoint | quote }}
{{- end }}
{{- if hasKey .Values "requests" }}
{{- $requests := include "urr-lib.block" (list . "requests") | fromYaml }}
REQUESTS_QUEUE: {{ $requests.queue | default "" | quote }}
SQS_ENDPOINT: {{ $requests.endpoint | default "" | quote }}
{{- end }}
{{- range $name, $queue := .Values.queues }}
{{- $prefix := upper $name | replace "-" "_" }}
{{ $prefix }}_QUEUE_URL: {{ $queue.queueURL | quote }}
{{ $prefix }}_QUEUE_ENDPOINT: {{ $queue.endpoint | default "" | quote }}
{{- end }}
{{- with .Values.postgres }}
DATABASE_MAX_CONNS: {{ include "urr-lib.text" .maxConnections | quote }}
{{- end }}
{{- end }}
