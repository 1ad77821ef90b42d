apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: reservations.{{ project }}.example.org}
spec:
  group: {{ project }}.example.org
  scope: Cluster
  names: {kind: Reservation, listKind: ReservationList, plural: reservations, singular: reservation}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [team]
              properties:
                team: {type: string}
