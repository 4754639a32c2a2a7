{{/*
The variables that are not secret. The migration has a copy, because hooks run before the objects of
the release are created.
*/}}
{{- define "urr-lib.config" -}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "urr-lib.fullname" . }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
data: {{- include "urr-lib.environment" . | nindent 2 }}
{{- end }}

{{/* (list $ "name of the ConfigMap"): the environment of a container, and the files that it names. */}}
{{- define "urr-lib.containerEnvironment" -}}
{{- $root := index . 0 -}}
envFrom:
  - configMapRef:
      name: {{ index . 1 }}
{{- with printf "%s\n%s" (include "urr-lib.podEnvironment" $root) (include "urr-lib.secretEnvironment" $root) | trim }}
env: {{- . | nindent 2 }}
{{- end }}
{{- with include "urr-lib.mounts" $root | trim }}
volumeMounts: {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "urr-lib.mounts" -}}
{{- if include "urr-lib.authorities" . }}
- {name: authorities, mountPath: /etc/urr/authorities, readOnly: true}
{{- end }}
{{- if include "urr-lib.mountsSecrets" . }}
- {name: secrets, mountPath: /etc/urr/secrets, readOnly: true}
{{- end }}
{{- end }}

{{/* Identifies the pod: without it a collector merges the metrics of all pods of a service. */}}
{{- define "urr-lib.podEnvironment" -}}
{{- if (include "urr-lib.block" (list . "telemetry") | fromYaml).otlpEndpoint }}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: service.instance.id=$(POD_NAME),k8s.pod.name=$(POD_NAME),k8s.namespace.name={{ .Release.Namespace }}
{{- end }}
{{- end }}

{{/* The ConfigMap of CA certificates that are trusted besides the public ones; empty: none. */}}
{{- define "urr-lib.authorities" -}}
{{- .Values.authorities | default (.Values.global | default dict).authorities | default "" -}}
{{- end }}

{{- define "urr-lib.volumes" -}}
{{- with include "urr-lib.eachVolume" . | trim -}}
volumes: {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "urr-lib.eachVolume" -}}
{{- with include "urr-lib.authorities" . }}
- name: authorities
  configMap: {name: {{ . }}}
{{- end }}
{{- if include "urr-lib.mountsSecrets" . }}
{{ include "urr-lib.secretVolume" . }}
{{- end }}
{{- end }}

{{/* Pod Security "restricted", and a read-only root filesystem. */}}
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
