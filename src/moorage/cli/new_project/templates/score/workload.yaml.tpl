# Four pods, which run on the cheapest nodes that fit.
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ project }}}
spec:
  replicas: 4
  selector: {matchLabels: {app: {{ project }}}}
  template:
    metadata: {labels: {app: {{ project }}}}
    spec:
      schedulerName: {{ project }}
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 100m}}
