# A pod that fits on no node of `moorage up`.
apiVersion: v1
kind: Pod
metadata: {name: {{ project }}, labels: {app: {{ project }}, {{ label }}: fast}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 64}}
