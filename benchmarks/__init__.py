"""Measurements of speed and growth. No result depends on a time limit."""
