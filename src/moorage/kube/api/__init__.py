"""Kubernetes objects as typed, immutable data: decoded once at the edge, never dictionaries inside."""
