"""Answers about a cluster: explain, what-if, shadow comparison, snapshots and the web page."""
