"""Scenarios for every combination of API server and scheduler: one list, and its runner."""
