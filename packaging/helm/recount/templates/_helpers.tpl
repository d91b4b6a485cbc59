{{- define "recount.labels" -}}
app.kubernetes.io/name: recount
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "recount.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.postgres.existingSecret) }}
{{- fail "replicas above 1 need postgres.existingSecret: a data folder has one server" }}
{{- end }}
{{- if and .Values.postgres.existingSecret (not .Values.sealKey.existingSecret) }}
{{- fail "postgres.existingSecret needs sealKey.existingSecret: all servers of a database have one seal key" }}
{{- end }}
{{- if and .Values.firstToken (gt (int .Values.replicas) 1) }}
{{- fail "firstToken needs replicas: 1, because no server may use the stores" }}
{{- end }}
{{- end }}

{{- define "recount.env" -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: RECOUNT_STORE__NODE_ADDRESS
  value: $(POD_NAME).{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc:8765
{{- if .Values.postgres.existingSecret }}
- name: RECOUNT_STORE
  valueFrom: { secretKeyRef: { name: {{ .Values.postgres.existingSecret }}, key: {{ .Values.postgres.key }} } }
{{- end }}
{{- if .Values.tls.existingSecret }}
- name: RECOUNT_TLS__CERT
  value: /etc/recount/tls/tls.crt
- name: RECOUNT_TLS__KEY
  value: /etc/recount/tls/tls.key
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "recount.mounts" -}}
- { name: data, mountPath: /var/lib/recount }
- { name: tmp, mountPath: /tmp }
{{- if .Values.sealKey.existingSecret }}
- { name: seal, mountPath: /var/lib/recount/keys, readOnly: true }
{{- end }}
{{- if .Values.tls.existingSecret }}
- { name: tls, mountPath: /etc/recount/tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "recount.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}
