{{/* The disruption budget (one eviction at a time) and the autoscaler. */}}
{{- define "urr-lib.availability" -}}
{{- $name := include "urr-lib.fullname" . }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready must not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "urr-lib.selector" . | nindent 6 }}
{{- with .Values.autoscaling }}
{{- if .enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" $ | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ $name }}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .cpuPercent }}
{{- end }}
{{- end }}
{{- end }}
