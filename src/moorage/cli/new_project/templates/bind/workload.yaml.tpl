# One pod for this plugin, and one for DefaultBinder.
apiVersion: v1
kind: Pod
metadata: {name: {{ project }}, labels: {app: {{ project }}, {{ label }}: yearly}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: other, labels: {app: {{ project }}}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 1}}
