"""Measurements: how fast, and how that grows. Nothing here passes or fails by the clock."""
