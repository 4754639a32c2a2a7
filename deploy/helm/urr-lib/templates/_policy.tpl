{{/*
The NetworkPolicy: ingress from the callers in the values, egress to the callees and to the backends
at their ports. All other traffic is denied in both directions.
*/}}
{{- define "urr-lib.policy" -}}
{{- include "urr-lib.policyOf" (list . (include "urr-lib.workload" .) (include "urr-lib.selector" .) "") }}
{{- end }}

{{/*
(list $ name "labels of the pods" "annotations"). Only the service's own pods, whose policy has its
name, have callers; those of its Jobs have none. Annotations are those of a hook.
*/}}
{{- define "urr-lib.policyOf" -}}
{{- $root := index . 0 -}}{{- $hook := index . 3 -}}
{{- if (include "urr-lib.block" (list $root "networkPolicy") | fromYaml).enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ index . 1 }}
  labels: {{- include "urr-lib.labels" $root | nindent 4 }}
  {{- with $hook }}
  annotations: {{- . | nindent 4 }}
  {{- end }}
spec:
  podSelector:
    matchLabels: {{- index . 2 | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- if eq (index . 1) (include "urr-lib.workload" $root) }}
  {{- with include "urr-lib.policy.ingress" $root | trim }}
  ingress: {{- . | nindent 4 }}
  {{- end }}
  {{- end }}
  egress: {{- include "urr-lib.policy.egress" $root | trim | nindent 4 }}
{{- end }}
{{- end }}

{{/*
A rule without peers would allow all traffic, so it is left out where there are no peers. Only HTTP
is open to all by default.
*/}}
{{- define "urr-lib.policy.ingress" -}}
{{- $policy := include "urr-lib.block" (list . "networkPolicy") | fromYaml -}}
{{- $from := $policy.from | default list -}}
{{- range $caller := .Values.rpc.callers -}}
{{- $from = append $from (include "urr-lib.policy.peer" (list $ $caller) | fromYaml) -}}
{{- if eq $caller "payment" -}}{{/* Its nightly comparison calls from pods of its own. */}}
{{- $from = append $from (include "urr-lib.policy.peer" (list $ "payment-reconcile") | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- if or $from (eq .Values.serves "http") }}
- ports: {{ include "urr-lib.policy.ports" (list . .Values.serves) }}
  {{- with $from }}
  from: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- with $policy.metricsFrom }}
- ports: [{protocol: TCP, port: {{ include "urr-lib.port.ops" $ }}}]
  from: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "urr-lib.policy.egress" -}}
{{- $policy := include "urr-lib.block" (list . "networkPolicy") | fromYaml -}}
{{- $networks := list -}}
{{- range $policy.backends -}}
{{- $networks = append $networks (dict "ipBlock" (dict "cidr" .)) -}}
{{- end -}}
# DNS at any port, since that of the pods may differ from their Service's.
- to: {{- $policy.dns | default (include "urr-lib.policy.dns" . | fromYamlArray) | toYaml | nindent 4 }}
{{- range $callee, $peer := .Values.rpc.calls }}
{{- if not $peer.address }}
- ports: {{ include "urr-lib.policy.ports" (list $ "grpc") }}
  to: [{{ include "urr-lib.policy.peer" (list $ $callee) | fromYaml | toJson }}]
{{- else if and $networks (ne $peer.address "none") }}
{{- /* The networks of the backends are not those of pods. */}}
{{- $pods := dict "namespaceSelector" dict "podSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" $callee "app.kubernetes.io/part-of" "urr")) }}
{{- include "urr-lib.policy.rule" (list (compact (list $peer.address (include "urr-lib.policy.meshAddress" $))) (list $pods)) }}
{{- end }}
{{- end }}
{{- include "urr-lib.policy.rule" (list (include "urr-lib.policy.addresses" . | fromYamlArray) $networks) }}
{{- if include "urr-lib.policy.aws" . }}
# AWS, whose public endpoints have no fixed networks: DynamoDB, SQS, STS.
- ports: [{protocol: TCP, port: 443}]
{{- end }}
{{- if include "urr-lib.policy.role" . }}
# The EKS Pod Identity agent, which issues the credentials of a pod's role.
- ports: [{protocol: TCP, port: 80}]
  to: [{ipBlock: {cidr: 169.254.170.23/32}}]
{{- end }}
{{- with $policy.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* (list $ "grpc"): the port at which calls arrive, and that of the mesh's proxies. */}}
{{- define "urr-lib.policy.ports" -}}
{{- $ports := list (include (printf "urr-lib.port.%s" (index . 1)) (index . 0)) (include "urr-lib.meshPort" (index . 0)) | compact -}}
[{{ range $i, $port := $ports }}{{ if $i }}, {{ end }}{protocol: TCP, port: {{ $port }}}{{ end }}]
{{- end }}

{{- define "urr-lib.policy.meshAddress" -}}
{{- with include "urr-lib.meshPort" . -}}:{{ . }}{{- end -}}
{{- end }}

{{/* The cluster's DNS servers: its pods, and the address of NodeLocal DNSCache on each node. */}}
{{- define "urr-lib.policy.dns" -}}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
  podSelector: {matchLabels: {k8s-app: kube-dns}}
- ipBlock: {cidr: 169.254.20.10/32}
{{- end }}

{{/* (list addresses peers): a rule for the ports of the addresses, to the peers or, without any, to all. */}}
{{- define "urr-lib.policy.rule" -}}
{{- $ports := list -}}
{{- range $address := index . 0 -}}
{{- $port := regexFind ":[0-9]+(/|$)" $address | trimAll ":/" -}}
{{- $ports = append $ports ($port | default (ternary "80" "443" (hasPrefix "http://" $address)) | int) -}}
{{- end -}}
{{- with $ports }}
- ports:
  {{- range . | uniq | sortAlpha }}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- with index $ 1 }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/*
Another service's pods: (list $ "vwr"). The pods of a release call each other; a service that is
installed alone is called by releases of its namespace, of any name. room is a part of the gateway.
*/}}
{{- define "urr-lib.policy.peer" -}}
{{- $root := index . 0 -}}{{- $peer := index . 1 -}}
podSelector:
  matchLabels:
    {{- if has $peer (list "gateway" "room") }}
    app.kubernetes.io/name: gateway
    app.kubernetes.io/component: {{ ternary "room" "shop" (eq $peer "room") }}
    {{- else }}
    app.kubernetes.io/name: {{ $peer }}
    {{- end }}
    {{- if $root.Chart.IsRoot }}
    app.kubernetes.io/part-of: urr
    {{- else }}
    app.kubernetes.io/instance: {{ $root.Release.Name }}
    {{- end }}
{{- end }}

{{/* Whether the pods authenticate with their service account's IAM role. */}}
{{- define "urr-lib.policy.role" -}}
{{- $aws := include "urr-lib.block" (list . "aws") | fromYaml -}}
{{- $kafka := include "urr-lib.block" (list . "kafka") | fromYaml -}}
{{- $iam := and (hasKey .Values "kafka") (eq ($kafka.sasl | default "") "AWS_MSK_IAM") -}}
{{- if or $iam (and (include "urr-lib.policy.awsServices" .) (not $aws.credentialsSecret)) -}}
true
{{- end -}}
{{- end }}

{{/* Whether the pods use AWS's own endpoints: those of its services, or STS for a role. */}}
{{- define "urr-lib.policy.aws" -}}
{{- or (include "urr-lib.policy.awsServices" .) (include "urr-lib.policy.role" .) -}}
{{- end }}

{{/* Whether the pods use DynamoDB or SQS of AWS. Servers at an endpoint get dummy credentials. */}}
{{- define "urr-lib.policy.awsServices" -}}
{{- $dynamodb := include "urr-lib.block" (list . "dynamodb") | fromYaml -}}
{{- $queues := values (.Values.queues | default dict) -}}
{{- with .Values.sqs -}}
{{- if .enabled -}}{{- $queues = append $queues . -}}{{- end -}}
{{- end -}}
{{- if hasKey .Values "requests" -}}
{{- $queues = append $queues (include "urr-lib.block" (list . "requests") | fromYaml) -}}
{{- end -}}
{{- $endpoints := list -}}
{{- range $queues -}}{{- $endpoints = append $endpoints (.endpoint | default "") -}}{{- end -}}
{{- if or (and (hasKey .Values "dynamodb") (not $dynamodb.endpoint)) (has "" $endpoints) -}}
true
{{- end -}}
{{- end }}

{{/* External addresses in the values. A policy has their ports only, since it cannot have host names. */}}
{{- define "urr-lib.policy.addresses" -}}
{{- $places := list (include "urr-lib.block" (list . "telemetry") | fromYaml).otlpEndpoint -}}
{{- if hasKey .Values "kafka" -}}
{{- $places = concat $places ((include "urr-lib.block" (list . "kafka") | fromYaml).brokers | default list) -}}
{{- end -}}
{{- if hasKey .Values "redis" -}}
{{- $places = concat $places ((include "urr-lib.block" (list . "redis") | fromYaml).addresses | default list) -}}
{{- end -}}
{{- if hasKey .Values "dynamodb" -}}
{{- $places = append $places (include "urr-lib.block" (list . "dynamodb") | fromYaml).endpoint -}}
{{- end -}}
{{- if hasKey .Values "requests" -}}
{{- $places = append $places (include "urr-lib.block" (list . "requests") | fromYaml).endpoint -}}
{{- end -}}
{{- with .Values.sqs -}}
{{- if .enabled -}}{{- $places = append $places .endpoint -}}{{- end -}}
{{- end -}}
{{- range $queue := .Values.queues -}}
{{- $places = append $places $queue.endpoint -}}
{{- end -}}
{{- with .Values.postgres -}}
{{- $places = append $places (printf ":%v" .port) -}}
{{- end -}}
{{- range $peer := .Values.rpc.calls -}}
{{- if and $peer.address (ne $peer.address "none") -}}
{{- $places = append $places $peer.address -}}
{{- $places = append $places (include "urr-lib.policy.meshAddress" $) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.config -}}
{{- range $text := ternary $value (list $value) (kindIs "slice" $value) -}}
{{- if or (regexMatch "^https?://" (toString $text)) (hasSuffix "_ADDRS" $name) (eq $name "SMTP_ADDR") -}}{{- $places = append $places $text -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- compact $places | toYaml -}}
{{- end }}
