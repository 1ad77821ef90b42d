"""Requests: paths, queries, and bodies in JSON, YAML and protobuf."""
