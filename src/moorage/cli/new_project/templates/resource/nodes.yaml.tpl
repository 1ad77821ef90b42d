# Two nodes of `moorage up` are reserved: one for the search team, one for the ads team.
apiVersion: {{ project }}.example.org/v1
kind: Reservation
metadata: {name: node-1}
spec: {team: search}
---
apiVersion: {{ project }}.example.org/v1
kind: Reservation
metadata: {name: node-2}
spec: {team: ads}
