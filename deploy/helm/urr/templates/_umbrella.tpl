{{- define "urr.journey.image" -}}
{{- with .Values.global.image.registry -}}{{ . }}/{{- end -}}
{{ .Values.journey.image.repository }}:{{ .Values.global.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/*
Charts before 0.2.0 had networkPolicy.enabled false by default in each service. --reuse-values keeps
that, and false of a service overrides the global true.
*/}}
{{- define "urr.validate.policies" -}}
{{- $enabled := .Values.global.networkPolicy.enabled -}}
{{- $denied := true -}}
{{- range $chart := omit .Subcharts "urr-lib" -}}
{{- if ne (toString $chart.Values.networkPolicy.enabled) "false" -}}{{- $denied = false -}}{{- end -}}
{{- end -}}
{{- if and $enabled $denied -}}
{{- fail "urr: networkPolicy.enabled is false in every service although global.networkPolicy.enabled is true: set the global value to false, or upgrade with --reset-then-reuse-values instead of --reuse-values, which keeps the defaults of former charts" -}}
{{- end -}}
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
{{- include "urr.validate.policies" . -}}
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
