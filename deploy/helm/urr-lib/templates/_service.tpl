{{/*
All objects of a service: the only include of a service's chart. Its input is the chart's values,
which urr-lib.validate checks before anything is rendered.
*/}}
{{- define "urr-lib.service" -}}
{{- include "urr-lib.validate" . -}}
{{- $parts := list "accounts" "config" "certificates" "migration" "deployment" "network" "ingress" "policy" "availability" -}}
{{- range $parts }}
{{ include (printf "urr-lib.%s" .) $ }}
{{- end }}
{{- if (.Values.room | default dict).enabled }}
{{- $room := dict "Values" (include "urr-lib.room" . | fromYaml) "Chart" .Chart "Release" .Release "part" "room" }}
{{- include "urr-lib.validate.autoscaling" $room }}
{{- range list "deployment" "network" "availability" }}
{{ include (printf "urr-lib.%s" .) $room }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The values of the second Deployment of a service: the members of room replace those of the service.
Everything else, as variables, secrets, the service account and the network policy, is the same object.
*/}}
{{- define "urr-lib.room" -}}
{{- $values := deepCopy .Values -}}
{{- $_ := set $values.service "nodePort" 0 -}}
{{- range $name, $value := omit .Values.room "enabled" -}}
{{- if kindIs "map" $value -}}
{{- range $member, $replacement := $value -}}
{{- $_ := set (get $values $name) $member $replacement -}}
{{- end -}}
{{- else -}}
{{- $_ := set $values $name $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $values -}}
{{- end }}
