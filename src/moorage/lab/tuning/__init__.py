"""Tuning: a search for weights and arguments that optimize an objective."""
