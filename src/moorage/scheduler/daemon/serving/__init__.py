"""Serving over HTTPS: health, metrics and pages for operators, to those whom the API server lets in."""
