{{/*
How a service is reached: a gRPC service by a headless Service, since its callers spread their calls over all pods themselves (one
connection to a virtual address would end at one pod); an HTTP service by a Service of the type that the values say.
*/}}
{{- define "urr-lib.network" -}}
---
apiVersion: v1
kind: Service
metadata:
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  {{- if eq .Values.serves "http" }}
  name: {{ include "urr-lib.fullname" . }}
  {{- with .Values.service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .Values.service.type }}
  {{- with .Values.service.externalTrafficPolicy }}
  externalTrafficPolicy: {{ . }}
  {{- end }}
  selector: {{- include "urr-lib.selector" . | nindent 4 }}
  ports:
    - name: http
      port: {{ .Values.service.port }}
      targetPort: http
      {{- with .Values.service.nodePort }}
      nodePort: {{ . }}
      {{- end }}
  {{- else }}
  name: {{ include "urr-lib.fullname" . }}-headless
spec:
  clusterIP: None
  selector: {{- include "urr-lib.selector" . | nindent 4 }}
  ports:
    - name: grpc
      port: {{ include "urr-lib.port.grpc" . }}
      targetPort: grpc
  {{- end }}
{{- end }}

{{/* The way in from outside for a service that serves HTTP, by whatever controller the cluster has. */}}
{{- define "urr-lib.ingress" -}}
{{- with .Values.ingress }}
{{- if .enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "urr-lib.fullname" $ }}
  labels: {{- include "urr-lib.labels" $ | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .tlsSecret }}
  tls:
    - hosts: {{- toYaml $.Values.ingress.hosts | nindent 8 }}
      secretName: {{ . }}
  {{- end }}
  rules:
    {{- range .hosts }}
    - host: {{ . | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ include "urr-lib.fullname" $ }}
                port: {name: http}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
