# Four pods for nodes of the fast pool. Three of them fit on one such node with 4 CPUs.
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ project }}}
spec:
  replicas: 4
  selector: {matchLabels: {app: {{ project }}}}
  template:
    metadata: {labels: {app: {{ project }}, {{ label }}: fast}}
    spec:
      schedulerName: {{ project }}
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 1200m}}
