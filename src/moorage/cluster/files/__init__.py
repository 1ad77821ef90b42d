"""Cluster files: manifests turned into the objects of a cluster, with defaults and workloads."""
