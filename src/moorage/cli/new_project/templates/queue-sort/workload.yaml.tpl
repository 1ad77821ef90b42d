# Each node has 4 CPUs, enough for one pod. The pod with deadline 5 is tried before the pod with deadline 60.
apiVersion: v1
kind: Pod
metadata: {name: {{ project }}-first, labels: {app: {{ project }}}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 3}}
---
apiVersion: v1
kind: Pod
metadata: {name: {{ project }}-second, labels: {app: {{ project }}}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 3}}
---
apiVersion: v1
kind: Pod
metadata: {name: {{ project }}-third, labels: {app: {{ project }}}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 3}}
---
apiVersion: v1
kind: Pod
metadata: {name: late, labels: {app: {{ project }}, {{ label }}: "60"}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 3}}
---
apiVersion: v1
kind: Pod
metadata: {name: soon, labels: {app: {{ project }}, {{ label }}: "5"}}
spec:
  schedulerName: {{ project }}
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources: {requests: {cpu: 3}}
