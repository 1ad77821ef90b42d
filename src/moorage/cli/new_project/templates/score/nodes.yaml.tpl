# Labels of the nodes of `moorage up`. On your own cluster: kubectl label node NAME {{ label }}=5
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {{{ label }}: "90"}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {{{ label }}: "5"}}
