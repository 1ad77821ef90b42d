"""Snapshots: the scheduling-relevant objects of a live cluster, read from its API server and saved to a file."""
