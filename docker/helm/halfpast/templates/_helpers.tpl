{{- define "halfpast.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "halfpast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "halfpast.labels" -}}
{{ include "halfpast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "halfpast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "halfpast.coreHost" -}}
{{ include "halfpast.name" . }}-core.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* Of a pod. What mounts the volume must be able to write it. */}}
{{- define "halfpast.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Of a container. */}}
{{- define "halfpast.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: ["ALL"]}
{{- end -}}

{{- define "halfpast.environment" -}}
- name: HALFPAST_METADATA
  valueFrom:
    secretKeyRef:
      name: {{ .Values.metadata.existingSecret }}
      key: {{ .Values.metadata.key }}
{{- range $name, $value := .Values.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Where the core is, for pods that are not it. */}}
{{- define "halfpast.coreAddresses" -}}
{{- $host := include "halfpast.coreHost" . -}}
- {name: HALFPAST_BROKER, value: "tcp:{{ $host }}:7101"}
- {name: HALFPAST_CHRONOS, value: "tcp:{{ $host }}:7102"}
- {name: HALFPAST_TXN, value: "tcp:{{ $host }}:7103"}
{{- end -}}

{{- define "halfpast.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
