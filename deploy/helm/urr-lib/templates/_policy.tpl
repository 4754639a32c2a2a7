{{/*
The NetworkPolicy: ingress from the callers in the values, egress to the callees and to the backends
at their ports. All other traffic is denied in both directions.
*/}}
{{- define "urr-lib.policy" -}}
{{- include "urr-lib.policyOf" (list . (include "urr-lib.fullname" .) (include "urr-lib.selector" .) "") }}
{{- end }}

{{/*
(list $ name "labels of the pods" "annotations"). Annotations are those of a hook: the pods are then
those of a migration, which has no callers.
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
  {{- if not $hook }}
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
{{- end -}}
{{- if or $from (eq .Values.serves "http") }}
- ports: [{protocol: TCP, port: {{ include (printf "urr-lib.port.%s" .Values.serves) . }}}]
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
# DNS: any server on port 53, and the cluster's DNS pods, whose port may differ from their Service's.
- ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
      podSelector: {matchLabels: {k8s-app: kube-dns}}
{{- range $callee, $peer := .Values.rpc.calls }}
{{- if not $peer.address }}
- ports: [{protocol: TCP, port: {{ include "urr-lib.port.grpc" $ }}}]
  to: [{{ include "urr-lib.policy.peer" (list $ $callee) | fromYaml | toJson }}]
{{- end }}
{{- end }}
{{- with include "urr-lib.policy.ports" . | fromYamlArray }}
- ports:
  {{- range . }}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- with $policy.backends }}
  to:
  {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
  {{- end }}
  {{- end }}
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

{{/* The pods of another service of the release: (list $ "vwr"). */}}
{{- define "urr-lib.policy.peer" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/name: {{ index . 1 }}
    app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{/* Whether the pods authenticate with their service account's IAM role. */}}
{{- define "urr-lib.policy.role" -}}
{{- $aws := include "urr-lib.block" (list . "aws") | fromYaml -}}
{{- $kafka := include "urr-lib.block" (list . "kafka") | fromYaml -}}
{{- if or (and (hasKey .Values "aws") (not $aws.credentialsSecret)) (and (hasKey .Values "kafka") (eq ($kafka.sasl | default "") "AWS_MSK_IAM")) -}}
true
{{- end -}}
{{- end }}

{{/* Ports of all external addresses in the values, sorted. A policy cannot contain host names. */}}
{{- define "urr-lib.policy.ports" -}}
{{- $places := list (include "urr-lib.block" (list . "telemetry") | fromYaml).otlpEndpoint -}}
{{- if hasKey .Values "kafka" -}}
{{- $places = concat $places ((include "urr-lib.block" (list . "kafka") | fromYaml).brokers | default list) -}}
{{- end -}}
{{- if hasKey .Values "redis" -}}
{{- $places = concat $places ((include "urr-lib.block" (list . "redis") | fromYaml).addresses | default list) -}}
{{- end -}}
{{- if hasKey .Values "dynamodb" -}}
{{- $places = append $places ((include "urr-lib.block" (list . "dynamodb") | fromYaml).endpoint | default "https://") -}}
{{- end -}}
{{- with .Values.sqs -}}
{{- if .enabled -}}{{- $places = append $places (.endpoint | default .queueURL) -}}{{- end -}}
{{- end -}}
{{- range $queue := .Values.queues -}}
{{- $places = append $places ($queue.endpoint | default $queue.queueURL) -}}
{{- end -}}
{{- with .Values.postgres -}}
{{- $places = append $places (printf ":%v" .port) -}}
{{- end -}}
{{- if include "urr-lib.policy.role" . -}}
{{- $places = append $places "https://" -}}
{{- end -}}
{{- range $peer := .Values.rpc.calls -}}
{{- if ne $peer.address "none" -}}{{- $places = append $places $peer.address -}}{{- end -}}
{{- end -}}
{{- range $value := .Values.config -}}
{{- if regexMatch "^https?://" (toString $value) -}}{{- $places = append $places $value -}}{{- end -}}
{{- end -}}
{{- $ports := list -}}
{{- range $place := compact $places -}}
{{- $port := regexFind ":[0-9]+(/|$)" $place | trimAll ":/" -}}
{{- $ports = append $ports ($port | default (ternary "80" "443" (hasPrefix "http://" $place)) | int) -}}
{{- end -}}
{{- $ports | uniq | sortAlpha | toYaml -}}
{{- end }}
