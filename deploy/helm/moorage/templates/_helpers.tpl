{{- define "moorage.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- define "moorage.labels" -}}
app.kubernetes.io/name: moorage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "moorage.selector" -}}
app.kubernetes.io/name: moorage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "moorage.subject" -}}
- kind: ServiceAccount
  name: {{ include "moorage.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
{{- define "moorage.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
