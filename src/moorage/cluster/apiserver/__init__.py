"""The embedded API server: objects in a store, behind the rules of the Kubernetes API."""
