"""Coscheduling: pods that a label or an annotation puts together start together, on any API server."""
