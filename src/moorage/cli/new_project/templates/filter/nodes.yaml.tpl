# Nodes of `moorage up` by their labels. On a cluster of your own: kubectl label node NAME {{ label }}=fast
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {{{ label }}: fast}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {{{ label }}: slow}}
