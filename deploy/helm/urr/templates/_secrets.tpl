{{/*
Contents of the generated Secrets, collected from the charts that refer to them: name → member →
text. Only keys are generated; passwords come from the backends.
*/}}
{{- define "urr.secrets.keys" -}}
{{- $made := dict -}}
{{- range $service, $chart := .Subcharts -}}
{{- $values := $chart.Values -}}
{{- with $values.rpc -}}
{{- range $caller := .callers -}}
{{- $_ := set $made (printf "%s-%s-%s" $values.rpc.secretPrefix $caller $service) (dict "key" (randAlphaNum 64)) -}}
{{- end -}}
{{- end -}}
{{- range $variable, $ref := $values.secrets -}}
{{- if and $ref.name (not (hasKey $made $ref.name)) -}}
{{- /* Ed25519 keys are seeds, all others random text. */ -}}
{{- $text := ternary (printf "1:%s" (randBytes 32)) (randAlphaNum 64) (has $variable (list "TICKET_CODE_KEY" "DRAW_STATEMENT_KEYS" "DRAW_RECEIPT_KEYS")) -}}
{{- $_ := set $made $ref.name (dict $ref.key $text) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kafka := .Values.global.kafka -}}
{{- range $writer := include "urr-lib.recordWriters" . | splitList " " -}}
{{- /* The certificate only carries the public key. */ -}}
{{- $key := genPrivateKey "ed25519" -}}
{{- $certificate := genSelfSignedCertWithKey (printf "urr-events-%s" $writer) (list) (list) 36500 $key -}}
{{- $_ := set $made (printf "%s-%s" ($kafka.keysPrefix | default "urr-events") $writer) (dict "key" $key "public" $certificate.Cert) -}}
{{- end -}}
{{- with .Values.global.aws.credentialsSecret -}}
{{- $_ := set $made . (dict "access-key-id" (randAlphaNum 20) "secret-access-key" (randAlphaNum 40)) -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}

{{/*
The certificates for calls, where no issuer and no mesh makes them unnecessary. The authority that
issues them is kept for services that are added later. ECDSA keys are P-256.
*/}}
{{- define "urr.secrets.certificates" -}}
{{- $made := dict -}}
{{- range $service, $chart := .Subcharts -}}
{{- $issuer := (include "urr-lib.block" (list $chart "tls") | fromYaml).issuer -}}
{{- if and $chart.Values.rpc (not ($issuer | default dict).name) -}}
{{- with include "urr-lib.certificate" $chart -}}{{- $_ := set $made . $service -}}{{- end -}}
{{- if ($chart.Values.room | default dict).enabled -}}
{{- with include "urr-lib.certificate" (dict "Values" $chart.Values "Chart" $chart.Chart "part" "room") -}}{{- $_ := set $made . "room" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $made -}}
{{- $name := printf "%s-authority" .Values.global.tls.secretPrefix -}}
{{- $kept := (lookup "v1" "Secret" .Release.Namespace $name).data -}}
{{- $days := 3650 -}}
{{- $authority := dict -}}
{{- if $kept -}}
{{- $authority = buildCustomCert (index $kept "tls.crt") (index $kept "tls.key") -}}
{{- else -}}
{{- $authority = genCAWithKey "urr" $days (genPrivateKey "ecdsa") -}}
{{- end -}}
{{- range $secret, $service := $made -}}
{{- $own := genSignedCertWithKey $service nil (list $service) $days $authority (genPrivateKey "ecdsa") -}}
{{- $_ := set $made $secret (dict "tls.crt" $own.Cert "tls.key" $own.Key "ca.crt" $authority.Cert) -}}
{{- end -}}
{{- $_ := set $made $name (dict "tls.crt" $authority.Cert "tls.key" $authority.Key) -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}

{{/* The URLs of the databases, by the Secret that each service or its migration reads. */}}
{{- define "urr.secrets.databases" -}}
{{- $made := dict -}}
{{- range $service, $chart := .Subcharts -}}
{{- with $chart.Values.postgres -}}
{{- range $name := compact (list .urlSecret .migrationURLSecret) -}}
{{- $_ := set $made $name (dict "url" ($.Values.secrets.databaseURL | replace "%s" (printf "urr_%s" $service))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}
