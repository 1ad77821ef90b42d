"""Defaults and validation that the API server applies when an object is created or updated."""
