{{/*
The ConfigMap with the variables that are not secret. Its name contains a hash of its content, so that
each revision has its own, and a pod that restarts during a failed rollout or after a rollback has the
variables of its own revision. It is a hook: it exists before the migration, Helm keeps it when a later
revision has another one, and a rollback creates it again if it was deleted.
*/}}
{{- define "urr-lib.config" -}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "urr-lib.configName" . }}
  labels: {{- include "urr-lib.configLabels" . | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,pre-rollback
    helm.sh/hook-weight: "-10"
    helm.sh/hook-delete-policy: before-hook-creation
immutable: true
data: {{- include "urr-lib.environment" . | nindent 2 }}
{{- end }}

{{- define "urr-lib.configName" -}}
{{- printf "%s-%s" (include "urr-lib.workload" .) (include "urr-lib.environment" . | sha256sum | trunc 10) -}}
{{- end }}

{{- define "urr-lib.configLabels" -}}
{{ include "urr-lib.labels" . }}
app.kubernetes.io/component: configuration
{{- end }}

{{/* The environment of a container, and the files that it names. */}}
{{- define "urr-lib.containerEnvironment" -}}
envFrom:
  - configMapRef:
      name: {{ include "urr-lib.configName" . }}
{{- with printf "%s\n%s" (include "urr-lib.podEnvironment" .) (include "urr-lib.secretEnvironment" .) | trim }}
env: {{- . | nindent 2 }}
{{- end }}
{{- with include "urr-lib.mounts" . | trim }}
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
