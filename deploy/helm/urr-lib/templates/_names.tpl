{{/* Container ports. Every pod has its own address, so all services can use the same ports. */}}
{{- define "urr-lib.port.http" -}}8080{{- end }}
{{- define "urr-lib.port.grpc" -}}9000{{- end }}
{{- define "urr-lib.port.ops" -}}9001{{- end }}

{{/*
The name of a chart's objects: (list $ "vwr"). It leaves 10 characters of a label for suffixes. Of a
release's name that is too long the end is cut, not the chart's name, so that names stay distinct.
*/}}
{{- define "urr-lib.fullnameOf" -}}
{{- $release := (index . 0).Release.Name -}}{{- $chart := index . 1 -}}
{{- printf "%s-%s" ($release | trunc (sub 52 (len $chart) | int) | trimSuffix "-") $chart -}}
{{- end }}

{{/* A chart installed alone, in a release of the same name, uses the release's name. */}}
{{- define "urr-lib.fullname" -}}
{{- if and .Chart.IsRoot (contains .Chart.Name .Release.Name) -}}{{ .Release.Name }}
{{- else -}}{{ include "urr-lib.fullnameOf" (list . .Chart.Name) }}
{{- end -}}
{{- end }}

{{/* The name of a Deployment, its Service, disruption budget and autoscaler. */}}
{{- define "urr-lib.workload" -}}
{{ include "urr-lib.fullname" . }}{{ with .part }}-{{ . }}{{ end }}
{{- end }}

{{/* Labels of all pods of a service. */}}
{{- define "urr-lib.identity" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/*
Selector labels of a Deployment's pods. They are immutable in Kubernetes and must never change, so those
of a chart that can have a second Deployment are distinct while it has one.
*/}}
{{- define "urr-lib.selector" -}}
{{ include "urr-lib.identity" . }}
{{- if hasKey .Values "room" }}
app.kubernetes.io/component: {{ .part | default "shop" }}
{{- end }}
{{- end }}

{{- define "urr-lib.labels" -}}
{{ include "urr-lib.identity" . }}
app.kubernetes.io/part-of: urr
app.kubernetes.io/version: {{ include "urr-lib.tag" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "urr-lib.podLabels" -}}
{{ merge (include "urr-lib.selector" . | fromYaml) (include "urr-lib.labels" . | fromYaml) | toYaml }}
{{- end }}

{{/*
A block of values with empty members taken from global: (list $ "kafka"). false and 0 are not empty:
they override a global true and a global number. Their defaults are therefore null.
*/}}
{{- define "urr-lib.block" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $block := deepCopy (index ($root.Values.global | default dict) $name | default dict) -}}
{{- range $member, $value := index $root.Values $name -}}
{{- if or $value (has (kindOf $value) (list "bool" "int" "int64" "float64")) (not (hasKey $block $member)) -}}
{{- $_ := set $block $member $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $block -}}
{{- end }}

{{- define "urr-lib.redis" -}}{{ include "urr-lib.block" (list . "redis") }}{{- end }}

{{/* The block "kafka", with a user and a password of the service's own for SCRAM. */}}
{{- define "urr-lib.kafka" -}}
{{- $kafka := include "urr-lib.block" (list . "kafka") | fromYaml -}}
{{- if eq ($kafka.sasl | default "") "SCRAM-SHA-512" -}}
{{- $_ := set $kafka "username" ($kafka.username | default (printf "%s-%s" ($kafka.usernamePrefix | default "urr") .Chart.Name)) -}}
{{- $_ := set $kafka "passwordSecret" ($kafka.passwordSecret | default (printf "%s-%s" ($kafka.passwordSecretPrefix | default "urr-kafka") .Chart.Name)) -}}
{{- end -}}
{{- toYaml $kafka -}}
{{- end }}

{{- define "urr-lib.tag" -}}
{{- (include "urr-lib.block" (list . "image") | fromYaml).tag | default .Chart.AppVersion -}}
{{- end }}

{{- define "urr-lib.image" -}}
{{- $image := include "urr-lib.block" (list . "image") | fromYaml -}}
{{- with $image.registry -}}{{ . }}/{{- end -}}
{{ $image.repository }}
{{- with $image.digest -}}@{{ . }}{{- else -}}:{{ include "urr-lib.tag" . }}{{- end -}}
{{- end }}

{{/* The fields of a container and a pod that are needed to pull the image. */}}
{{- define "urr-lib.pullPolicy" -}}
{{- (include "urr-lib.block" (list . "image") | fromYaml).pullPolicy | default "IfNotPresent" -}}
{{- end }}

{{- define "urr-lib.pullSecrets" -}}
{{- with (include "urr-lib.block" (list . "image") | fromYaml).pullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end -}}
{{- end }}
