{{/* The disruption budget (one eviction at a time) and the autoscaler. */}}
{{- define "urr-lib.availability" -}}
{{- $name := include "urr-lib.workload" . }}
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
{{- if and .enabled .triggers }}
{{- include "urr-lib.scaledObject" $ }}
{{- else if .enabled }}
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
    {{- with .cpuPercent }}
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ . }}
    {{- end }}
    {{- with .metrics }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* KEDA's autoscaler, for triggers that the HorizontalPodAutoscaler does not know. */}}
{{- define "urr-lib.scaledObject" -}}
{{- $name := include "urr-lib.workload" . }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ $name }}
  minReplicaCount: {{ .Values.autoscaling.minReplicas }}
  maxReplicaCount: {{ .Values.autoscaling.maxReplicas }}
  advanced:
    horizontalPodAutoscalerConfig:
      # urr-lib.replicas looks for an autoscaler of this name; KEDA's default is keda-hpa-<name>.
      name: {{ $name }}
  triggers:
    {{- with .Values.autoscaling.cpuPercent }}
    - type: cpu
      metricType: Utilization
      metadata: {value: {{ . | quote }}}
    {{- end }}
    {{- toYaml .Values.autoscaling.triggers | nindent 4 }}
{{- end }}
