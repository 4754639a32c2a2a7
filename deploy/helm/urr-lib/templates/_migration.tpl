{{/*
Job that updates tables and topics before the pods start. The Jobs of a release run one after the
other, by weight, and are idempotent. A hook runs before the release's own objects exist, so it has
its own service account; only this account needs a role that may create tables. A failed Job is kept
for its log.
*/}}
{{- define "urr-lib.migration" -}}
{{- if .Values.migration.enabled }}
{{- $name := printf "%s-migrate" (include "urr-lib.fullname" .) }}
{{- $job := . }}
{{- with .Values.postgres }}
{{- with .migrationURLSecret }}
{{- $postgres := merge (dict "urlSecret" .) $.Values.postgres }}
{{- $job = merge (dict "Values" (merge (dict "postgres" $postgres) $.Values)) $ }}
{{- end }}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  annotations:
    {{- include "urr-lib.hook" -10 | nindent 4 }}
    {{- with .Values.migration.serviceAccount.annotations | default .Values.serviceAccount.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
automountServiceAccountToken: false
{{- include "urr-lib.policyOf" (list . $name (include "urr-lib.migrationLabels" .) (include "urr-lib.hook" -10)) }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  annotations: {{- include "urr-lib.hook" .Values.migration.weight | nindent 4 }}
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ .Values.migration.deadlineSeconds }}
  template: {{- include "urr-lib.task" (list $job $name (include "urr-lib.migrationLabels" .) (prepend .Values.migration.arguments "migrate")) | nindent 4 }}
{{- end }}
{{- end }}

{{/*
The pod of a Job that runs one of the service's commands: (list $ account "labels of the pod" command),
with the command and its arguments as a list.
The labels are not those of the selector, so that no Service sends calls to it.
*/}}
{{- define "urr-lib.task" -}}
{{- $root := index . 0 -}}{{- $command := index . 3 -}}
metadata:
  labels: {{- index . 2 | nindent 4 }}
    app.kubernetes.io/part-of: urr
spec:
  serviceAccountName: {{ index . 1 }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: Never
  {{- with include "urr-lib.pullSecrets" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext: {{- include "urr-lib.podSecurity" $root | nindent 4 }}
  {{- with include "urr-lib.placement" $root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: {{ first $command }}
      image: {{ include "urr-lib.image" $root | quote }}
      imagePullPolicy: {{ include "urr-lib.pullPolicy" $root }}
      args: {{- toYaml $command | nindent 8 }}
      {{- include "urr-lib.containerEnvironment" $root | nindent 6 }}
      securityContext: {{- include "urr-lib.containerSecurity" $root | nindent 8 }}
      resources: {{- toYaml $root.Values.resources | nindent 8 }}
  {{- with include "urr-lib.volumes" $root }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "urr-lib.migrationLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-migrate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Annotations of a hook object that is created before an install or upgrade, in order of weight. */}}
{{- define "urr-lib.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
