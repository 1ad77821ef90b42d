"""Requests that nobody sane would send, over real HTTP, and what must hold of the API server all the same."""
