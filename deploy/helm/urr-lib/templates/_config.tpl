{{/* The variables that are no secrets. The migration has a copy: hooks run before anything of the release is there. */}}
{{- define "urr-lib.config" -}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "urr-lib.fullname" . }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
data: {{- include "urr-lib.environment" . | nindent 2 }}
{{- end }}

{{/* (list $ "name of the ConfigMap"): the environment of a container. */}}
{{- define "urr-lib.containerEnvironment" -}}
{{- $root := index . 0 -}}
envFrom:
  - configMapRef:
      name: {{ index . 1 }}
{{- with include "urr-lib.secretEnvironment" $root | trim }}
env: {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Pod Security "restricted", and a root filesystem that nobody can write to. */}}
{{- define "urr-lib.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "urr-lib.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
