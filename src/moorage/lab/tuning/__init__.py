"""Tuning: which weights and arguments serve an objective best, found on some seeds and judged by others."""
