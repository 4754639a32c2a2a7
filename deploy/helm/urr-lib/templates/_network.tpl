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
