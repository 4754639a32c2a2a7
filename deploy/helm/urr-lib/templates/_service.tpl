{{/*
A service, whole: the only thing that a service's chart includes. Everything it needs to know stands in the chart's values; what
is wrong with them is said by urr-lib.validate before anything is rendered.
*/}}
{{- define "urr-lib.service" -}}
{{- include "urr-lib.validate" . -}}
{{- $parts := list "accounts" "config" "migration" "deployment" "network" "ingress" "policy" "availability" -}}
{{- range $parts }}
{{ include (printf "urr-lib.%s" .) $ }}
{{- end }}
{{- end }}
