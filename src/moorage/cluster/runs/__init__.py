"""Runs of a scheduler as data: pod histories, utilization, recordings that can be replayed, and text reports."""
