# Permissions of the plugin, in addition to those of Moorage (base/rbac.yaml).
# Listed kinds need the verbs get, list and watch.
# kustomization.yaml adds the prefix {{ project }}- to all names.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plugin
# For a plugin that lists the kind Reservation:
#   - {apiGroups: [example.org], resources: [reservations], verbs: [get, list, watch]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: plugin
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plugin}
subjects:
  - {kind: ServiceAccount, name: moorage, namespace: kube-system}
