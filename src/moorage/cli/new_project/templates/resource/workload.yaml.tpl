# Four pods of the search team: they run on nodes reserved for that team, and on nodes without a reservation.
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ project }}}
spec:
  replicas: 4
  selector: {matchLabels: {app: {{ project }}}}
  template:
    metadata: {labels: {app: {{ project }}, {{ label }}: search}}
    spec:
      schedulerName: {{ project }}
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 100m}}
