{{/*
The Service: headless for gRPC, since callers balance over all pods themselves (one connection to a
virtual address would end at one pod); of the configured type for HTTP. A service that accepts no
calls has none.
*/}}
{{- define "urr-lib.network" -}}
{{- if ne .Values.serves "none" }}
---
apiVersion: v1
kind: Service
metadata:
  labels: {{- include "urr-lib.labels" . | nindent 4 }}
  {{- if eq .Values.serves "http" }}
  name: {{ include "urr-lib.workload" . }}
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
{{- end }}

{{/* The Ingress of an HTTP service, for any controller. */}}
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
          {{- $service := include "urr-lib.fullname" $ }}
          {{- if ($.Values.room | default dict).enabled }}
          # Prefixes are whole segments, and the longest one counts.
          {{- range list "/vwr" "/vwr-api" }}
          - path: {{ . }}
            pathType: Prefix
            backend:
              service:
                name: {{ $service }}-room
                port: {name: http}
          {{- end }}
          {{- end }}
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ $service }}
                port: {name: http}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
