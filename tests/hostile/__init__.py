"""Abusive requests over real HTTP, and the invariants of the API server under them."""
