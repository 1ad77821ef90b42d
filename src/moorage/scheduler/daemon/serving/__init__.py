"""Serving over HTTPS: health, metrics and pages for operators, for clients that the API server authorizes."""
