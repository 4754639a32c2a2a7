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
{{- range list "accounts" "config" "certificates" "deployment" "network" "policy" "availability" }}
{{ include (printf "urr-lib.%s" .) $room }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The values of the second Deployment of the gateway, whose pods face the crowd: the members of room
replace those of the gateway, and what its command room does not read is left out. So its variables,
secrets, service account and network policy are objects of its own.
*/}}
{{- define "urr-lib.room" -}}
{{- $values := unset (deepCopy .Values) "kafka" -}}
{{- $_ := set $values.service "nodePort" 0 -}}
{{- $_ := set $values.serviceAccount "annotations" dict -}}
{{- $_ := set $values.rpc "calls" (pick $values.rpc.calls "queue" "vwr") -}}
{{- $_ := set $values "secrets" (pick $values.secrets "VISITOR_SECRET" "VWR_TICKET_SECRET" "CLOUDFRONT_SECRET" "CAPTCHA_SECRET") -}}
{{- range $name := keys $values.config -}}
{{- if regexMatch "^(DEV_LOGIN|OIDC_.*|PUBLIC_URL|PAY_HOST|TOSS_.*|VERIFY_SLOTS)$" $name -}}{{- $_ := unset $values.config $name -}}{{- end -}}
{{- end -}}
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
