# Three pods that need a license. There are two, so one pod is pending.
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ project }}}
spec:
  replicas: 3
  selector: {matchLabels: {app: {{ project }}}}
  template:
    metadata: {labels: {app: {{ project }}, {{ label }}: solver}}
    spec:
      schedulerName: {{ project }}
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 100m}}
