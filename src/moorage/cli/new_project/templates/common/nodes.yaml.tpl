# Changes of the nodes of `moorage up`; the plugin needs none.
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {rack: first}}
