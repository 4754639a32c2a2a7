{{/* The Secret with the service's certificate for calls: tls.crt, tls.key, ca.crt. Empty where a mesh encrypts. */}}
{{- define "urr-lib.certificate" -}}
{{- $tls := include "urr-lib.block" (list . "tls") | fromYaml -}}
{{- if not $tls.mesh -}}{{ $tls.secretPrefix | default "urr-tls" }}-{{ .part | default .Chart.Name }}{{- end -}}
{{- end }}

{{/* Where its members are: {from, name, key} of each. */}}
{{- define "urr-lib.certificateParts" -}}
{{- $authorities := (include "urr-lib.block" (list . "tls") | fromYaml).authorities -}}
{{- with include "urr-lib.certificate" . }}
- {from: secret, name: {{ . }}, key: tls.crt}
- {from: secret, name: {{ . }}, key: tls.key}
- {from: {{ empty $authorities | ternary "secret" "configMap" }}, name: {{ $authorities | default . }}, key: ca.crt}
{{- end }}
{{- end }}

{{/*
The Certificate by which cert-manager makes that Secret. It is a hook, since the migration mounts the
Secret too. Helm creates it again at each upgrade, which issues no other certificate.
*/}}
{{- define "urr-lib.certificates" -}}
{{- with (include "urr-lib.block" (list . "tls") | fromYaml).issuer }}
{{- if .name }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ include "urr-lib.certificate" $ }}
  labels: {{- include "urr-lib.labels" $ | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback
    helm.sh/hook-weight: "-20"
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  secretName: {{ include "urr-lib.certificate" $ }}
  # Callers and callees know a service by this name, at whatever address.
  dnsNames: [{{ $.part | default $.Chart.Name }}]
  usages: [digital signature, server auth, client auth]
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  issuerRef: {group: cert-manager.io, kind: {{ .kind | default "Issuer" }}, name: {{ .name }}}
{{- end }}
{{- end }}
{{- end }}

{{/* The port of the mesh's proxies, between which calls go; empty without a mesh. */}}
{{- define "urr-lib.meshPort" -}}
{{- $tls := include "urr-lib.block" (list . "tls") | fromYaml -}}
{{- if $tls.mesh -}}{{ $tls.meshPort | default 15008 | int }}{{- end -}}
{{- end }}
