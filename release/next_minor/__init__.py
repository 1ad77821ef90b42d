"""Compare two releases of Kubernetes with each other and with Moorage: `make next-minor VERSION=v1.38.0-beta.0`.

`docs/explanation/following-kubernetes.md` describes the procedure.
"""
