{{/* The service's pods. */}}
{{- define "urr-lib.deployment" -}}
{{- $name := include "urr-lib.workload" . }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  {{- $replicas := include "urr-lib.replicas" . }}
  {{- if and $replicas .Values.autoscaling.enabled }}
  annotations:
    urr.guru/replicas: kept
  {{- end }}
spec:
  {{- with $replicas }}
  replicas: {{ . }}
  {{- end }}
  selector:
    matchLabels: {{- include "urr-lib.selector" . | nindent 6 }}
  # Callers and load balancers learn of a new pod within this time.
  minReadySeconds: {{ .Values.minReadySeconds }}
  strategy:
    # A pod is removed only after its replacement is ready.
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 25%
  template:
    metadata:
      labels: {{- include "urr-lib.podLabels" . | nindent 8 }}
      {{- with .Values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec: {{- include "urr-lib.pod" . | nindent 6 }}
{{- end }}

{{/*
The number of pods; empty where the autoscaler sets it, be it the chart's or KEDA's. Where the
previous revision set a number, Helm would remove the field, and Kubernetes would scale down to one
pod: the number in the cluster is kept then. The annotation marks such revisions, since all later
ones must set a number too.
*/}}
{{- define "urr-lib.replicas" -}}
{{- if not .Values.autoscaling.enabled -}}
{{- .Values.replicas -}}
{{- else -}}
{{- $name := include "urr-lib.workload" . -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace $name -}}
{{- $scaled := lookup "autoscaling/v2" "HorizontalPodAutoscaler" .Release.Namespace $name -}}
{{- if and $deployment (or (not $scaled) (dig "metadata" "annotations" "urr.guru/replicas" "" $deployment)) -}}
{{- max $deployment.spec.replicas .Values.autoscaling.minReplicas -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "urr-lib.pod" -}}
serviceAccountName: {{ include "urr-lib.workload" . }}
automountServiceAccountToken: false
# The variables that Kubernetes sets for each Service (QUEUE_PORT=tcp://…) collide with ours.
enableServiceLinks: false
# Longer than the process needs after SIGTERM, so that it is never killed during shutdown.
terminationGracePeriodSeconds: {{ add .Values.shutdown.drainSeconds .Values.shutdown.timeoutSeconds 5 }}
{{- with include "urr-lib.pullSecrets" . }}
{{ . }}
{{- end }}
securityContext: {{- include "urr-lib.podSecurity" . | nindent 2 }}
{{- with include "urr-lib.placement" . | trim }}
{{ . }}
{{- end }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    # Pods of the previous revision do not count.
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels: {{- include "urr-lib.selector" $ | nindent 8 }}
  {{- end }}
containers:
  - name: {{ .Chart.Name }}
    image: {{ include "urr-lib.image" . | quote }}
    imagePullPolicy: {{ include "urr-lib.pullPolicy" . }}
    {{- with .part }}
    args: [{{ . }}]
    {{- end }}
    ports:
      {{- if ne .Values.serves "none" }}
      - name: {{ .Values.serves }}
        containerPort: {{ include (printf "urr-lib.port.%s" .Values.serves) . }}
      {{- end }}
      - name: ops
        containerPort: {{ include "urr-lib.port.ops" . }}
    {{- include "urr-lib.containerEnvironment" . | nindent 4 }}
    {{- include "urr-lib.probes" . | nindent 4 }}
    securityContext: {{- include "urr-lib.containerSecurity" . | nindent 6 }}
    resources: {{- toYaml .Values.resources | nindent 6 }}
{{- with include "urr-lib.volumes" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* Scheduling: nodes and priority. */}}
{{- define "urr-lib.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A pod is ready from the moment when its stores have answered once until it stops. The later loss of a
store makes it neither unready nor restarts it: all pods lose a common store at once, and the Service
would have no address. Callers learn of the loss by gRPC health instead.
*/}}
{{- define "urr-lib.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: ops}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: ops}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: ops}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}
