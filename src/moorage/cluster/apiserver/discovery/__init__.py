"""By which clients learn what there is: API groups, schemas and custom resource definitions."""
