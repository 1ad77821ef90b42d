"""Discovery: API groups, schemas and custom resource definitions."""
