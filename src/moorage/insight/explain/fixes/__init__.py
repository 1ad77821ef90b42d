"""Fixes, one module per sort of obstacle.

Each function takes a subject and the rows with no other obstacle, and yields changes that were tried.
"""
