# Optional: edit nodes of "moorage up" here. This plugin needs no node labels.
apiVersion: v1
kind: Node
metadata: {name: node-1}
