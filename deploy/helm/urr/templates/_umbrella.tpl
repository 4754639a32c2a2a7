{{- define "urr.journey.image" -}}
{{- with .Values.global.image.registry -}}{{ . }}/{{- end -}}
{{ .Values.journey.image.repository }}:{{ .Values.global.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Checks that span several charts. */}}
{{- define "urr.validate" -}}
{{- range $service, $chart := .Subcharts -}}
{{- with $chart.Values.rpc -}}
{{- range $callee, $peer := .calls -}}
{{- if not (or $peer.address (hasKey $.Subcharts $callee)) -}}
{{- fail (printf "urr: %s calls %s, which is not installed: set %s.rpc.calls.%s.address to its address, or to none where that is allowed" $service $callee $service $callee) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "urr.validate.kafka" . -}}
{{- /* Every cluster has the namespace default: without it, lookup has no cluster to read. */ -}}
{{- if and (eq (toString .Values.secrets.generate) "true") (not (lookup "v1" "Namespace" "" "default")) -}}
{{- fail "urr: secrets.generate must read the cluster to keep existing keys, which helm template and Argo CD cannot do: create the Secrets, or set secrets.generate to always, which makes new keys at each rendering" -}}
{{- end -}}
{{- if and .Values.secrets.databaseURL (not (contains "%s" .Values.secrets.databaseURL)) -}}
{{- fail "urr: secrets.databaseURL must have %s in place of the database's name: each service has its own database" -}}
{{- end -}}
{{- if and .Values.monitoring.enabled (not .Values.monitoring.runbooks) -}}
{{- fail "urr: monitoring.enabled needs monitoring.runbooks: alerts link to their runbooks" -}}
{{- end -}}
{{- if and .Values.journey.enabled (not .Values.gateway.config.DEV_LOGIN) -}}
{{- fail "urr: journey.enabled needs gateway.config.DEV_LOGIN: its simulated visitors sign in with it" -}}
{{- end -}}
{{- end }}

{{/* Brokers cannot tell services apart that are the same user, or have the same IAM role. */}}
{{- define "urr.validate.kafka" -}}
{{- with .Values.global.kafka -}}
{{- if and (or .username .passwordSecret) (not .plain) -}}
{{- fail "urr: global.kafka.username and passwordSecret must be empty: each service is a user of its own, with the Secret urr-kafka-<service> (kafka-acls.sh makes their rights)" -}}
{{- end -}}
{{- end -}}
{{- $services := dict -}}
{{- range $service, $chart := .Subcharts -}}
{{- if hasKey $chart.Values "kafka" -}}
{{- $kafka := include "urr-lib.kafka" $chart | fromYaml -}}
{{- $role := get $chart.Values.serviceAccount.annotations "eks.amazonaws.com/role-arn" -}}
{{- $user := ternary $role $kafka.username (eq ($kafka.sasl | default "") "AWS_MSK_IAM") -}}
{{- if and $user $kafka.sasl (not $kafka.plain) -}}
{{- with get $services $user -}}
{{- fail (printf "urr: %s and %s must not share the user %s in Kafka: whoever has one of them could write what only the other may" . $service $user) -}}
{{- end -}}
{{- $_ := set $services $user $service -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
