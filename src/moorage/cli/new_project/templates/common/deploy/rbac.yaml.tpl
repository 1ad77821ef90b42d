# Permissions of the plugin, in addition to those of Moorage (base/rbac.yaml). Kinds that it lists need get, list and watch.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ project }}
# For a plugin that lists the kind Reservation:
#   - {apiGroups: [example.org], resources: [reservations], verbs: [get, list, watch]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ project }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ project }}}
subjects:
  - {kind: ServiceAccount, name: moorage, namespace: kube-system}
