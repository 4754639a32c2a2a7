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
  template:
    metadata:
      # Without the selector's labels, so that no Service sends calls here.
      labels: {{- include "urr-lib.migrationLabels" . | nindent 8 }}
        app.kubernetes.io/part-of: urr
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      restartPolicy: Never
      {{- with include "urr-lib.pullSecrets" . }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext: {{- include "urr-lib.podSecurity" . | nindent 8 }}
      {{- with include "urr-lib.placement" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
        - name: migrate
          image: {{ include "urr-lib.image" . | quote }}
          imagePullPolicy: {{ include "urr-lib.pullPolicy" . }}
          args: [migrate]
          {{- include "urr-lib.containerEnvironment" $job | nindent 10 }}
          securityContext: {{- include "urr-lib.containerSecurity" . | nindent 12 }}
          resources: {{- toYaml .Values.resources | nindent 12 }}
      {{- with include "urr-lib.volumes" $job }}
      {{- . | nindent 6 }}
      {{- end }}
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
