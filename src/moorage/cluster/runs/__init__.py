"""Runs of a scheduler as data: pod histories, utilisation, recordings that can be replayed, and text reports."""
