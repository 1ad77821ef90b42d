"""Yoda: GPU pods placed by the current state of every card."""
