"""Coscheduling: pods that are grouped by a label or an annotation start together, on any API server."""
