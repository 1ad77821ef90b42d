"""Kubernetes as a library: objects, defaults and validation, patches, manifests, HTTP and the API client."""
