{{/*
Combinations of values that are invalid though the schema allows each value. Each stops the rendering
with a message that says what to change.
*/}}
{{- define "urr-lib.validate" -}}
{{- $name := .Chart.Name -}}
{{- if eq (include "urr-lib.tag" .) "latest" -}}
{{- fail (printf "%s: image.tag must not be latest: it does not identify a version and cannot be rolled back to" $name) -}}
{{- end -}}
{{- include "urr-lib.validate.autoscaling" . -}}
{{- include "urr-lib.validate.rpc" . -}}
{{- include "urr-lib.validate.tls" . -}}
{{- include "urr-lib.validate.stores" . -}}
{{- include "urr-lib.validate.config" . -}}
{{- include "urr-lib.validate.ingress" . -}}
{{- include "urr-lib.validate.loadBalancer" . -}}
{{- include "urr-lib.validate.room" . -}}
{{- end }}

{{- define "urr-lib.validate.autoscaling" -}}
{{- $name := printf "%s%s" .Chart.Name (ternary "" ".room" (empty .part)) -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "%s: autoscaling.minReplicas (%v) must not exceed autoscaling.maxReplicas (%v)" $name .minReplicas .maxReplicas) -}}
{{- end -}}
{{- if and .enabled (not (or .cpuPercent .metrics .triggers)) -}}
{{- fail (printf "%s: autoscaling.enabled needs a metric: autoscaling.cpuPercent, metrics or triggers" $name) -}}
{{- end -}}
{{- if and .metrics .triggers -}}
{{- fail (printf "%s: autoscaling.metrics must be empty where autoscaling.triggers is not: KEDA's autoscaler takes triggers only" $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.room" -}}
{{- if and (.Values.room | default dict).enabled (eq .Values.rpc.calls.vwr.address "none") -}}
{{- fail (printf "%s: room.enabled needs vwr: rpc.calls.vwr.address is none" .Chart.Name) -}}
{{- end -}}
{{- $redis := include "urr-lib.block" (list . "redis") | fromYaml -}}
{{- if and (.Values.room | default dict).enabled (or $redis.username $redis.passwordSecret) (not (and (dig "redis" "username" "" .Values.room) (dig "redis" "passwordSecret" "" .Values.room))) -}}
{{- fail (printf "%s: room.enabled needs room.redis.username and room.redis.passwordSecret, a user who reaches the room's keys only: that of redis reaches the lines" .Chart.Name) -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.loadBalancer" -}}
{{- with .Values.service -}}
{{- if and (eq .type "LoadBalancer") (ne (.externalTrafficPolicy | default "") "Local") (not $.Values.config.TRUSTED_PROXIES) -}}
{{- fail (printf "%s: service.type LoadBalancer needs service.externalTrafficPolicy Local, or config.TRUSTED_PROXIES, the networks of its proxies: without them all visitors share the nodes' addresses and their rate limits" $.Chart.Name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.ingress" -}}
{{- with .Values.ingress -}}
{{- if and .enabled (not .hosts) -}}
{{- fail (printf "%s: ingress.hosts must be set where ingress.enabled is true" $.Chart.Name) -}}
{{- end -}}
{{- if and .enabled (not $.Values.config.TRUSTED_PROXIES) -}}
{{- fail (printf "%s: ingress.enabled needs config.TRUSTED_PROXIES, the networks of its controller: without it all visitors share one address and its rate limits" $.Chart.Name) -}}
{{- end -}}
{{- $pay := get $.Values.config "PAY_HOST" -}}
{{- if and .enabled $pay (not (has $pay .hosts)) -}}
{{- fail (printf "%s: ingress.hosts must have config.PAY_HOST too, where the page of payments is" $.Chart.Name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.rpc" -}}
{{- range $callee, $peer := .Values.rpc.calls -}}
{{- if and $.Chart.IsRoot (not $peer.address) -}}
{{- fail (printf "%s: rpc.calls.%s.address must be set where the chart is installed alone, as dns:///%s-headless:9000" $.Chart.Name $callee $callee) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.tls" -}}
{{- $tls := include "urr-lib.block" (list . "tls") | fromYaml -}}
{{- if and $tls.mesh (or ($tls.issuer | default dict).name $tls.authorities) -}}
{{- fail (printf "%s: tls.mesh must not be on together with tls.issuer or tls.authorities: calls are encrypted by the mesh, or by the services' own certificates" .Chart.Name) -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.stores" -}}
{{- $name := .Chart.Name -}}
{{- if hasKey .Values "kafka" -}}
{{- $kafka := include "urr-lib.kafka" . | fromYaml -}}
{{- if not $kafka.brokers -}}
{{- fail (printf "%s: kafka.brokers must be set, or global.kafka.brokers for every service: host:port of each" $name) -}}
{{- end -}}
{{- if not (or $kafka.sasl $kafka.plain) -}}
{{- fail (printf "%s: kafka.sasl must be set, or global.kafka.sasl for every service, so that the brokers know the services; kafka.plain allows an empty one in development" $name) -}}
{{- end -}}
{{- if and $kafka.passwordSecret (ne ($kafka.sasl | default "") "SCRAM-SHA-512") -}}
{{- fail (printf "%s: kafka.passwordSecret is used with kafka.sasl SCRAM-SHA-512 only" $name) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values "redis" -}}
{{- if not (include "urr-lib.block" (list . "redis") | fromYaml).addresses -}}
{{- fail (printf "%s: redis.addresses must be set, or global.redis.addresses for every service: host:port of each" $name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.sqs -}}
{{- if and .enabled (not .queueURL) -}}
{{- fail (printf "%s: sqs.queueURL must be set where sqs.enabled is true" $name) -}}
{{- end -}}
{{- end -}}
{{- range $queue, $values := .Values.queues -}}
{{- if not $values.queueURL -}}
{{- fail (printf "%s: queues.%s.queueURL must be set" $name $queue) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.validate.config" -}}
{{- with .Values.config -}}
{{- if and .DEV_LOGIN .SECURE_COOKIES -}}
{{- fail (printf "%s: config.DEV_LOGIN must not be on together with config.SECURE_COOKIES: it lets anyone sign in as any user" $.Chart.Name) -}}
{{- end -}}
{{- if and .DEV_LOGIN .OIDC_ISSUER -}}
{{- fail (printf "%s: config.DEV_LOGIN must not be on together with config.OIDC_ISSUER: it lets anyone sign in as any of its users" $.Chart.Name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.postgres -}}
{{- $holds := ($.Values.config | default dict).HOLD_CONCURRENCY | default 0 -}}
{{- if and (gt (int $holds) 0) (gt (int .maxConnections) 1) (ge (int $holds) (int .maxConnections)) -}}
{{- fail (printf "%s: config.HOLD_CONCURRENCY (%v) must be below postgres.maxConnections (%v): payments need a connection too" $.Chart.Name $holds .maxConnections) -}}
{{- end -}}
{{- end -}}
{{- end }}
