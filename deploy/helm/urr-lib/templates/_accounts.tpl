{{/* The pods' service account, for a cloud provider's IAM role. The pods do not call the API server. */}}
{{- define "urr-lib.accounts" -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "urr-lib.workload" . }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
