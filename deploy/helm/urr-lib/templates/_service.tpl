{{/*
All objects of a service: the only include of a service's chart. Its input is the chart's values,
which urr-lib.validate checks before anything is rendered.
*/}}
{{- define "urr-lib.service" -}}
{{- include "urr-lib.validate" . -}}
{{- $parts := list "accounts" "config" "migration" "deployment" "network" "ingress" "policy" "availability" -}}
{{- range $parts }}
{{ include (printf "urr-lib.%s" .) $ }}
{{- end }}
{{- end }}
