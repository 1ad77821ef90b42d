"""Forecasts of when pods start: lifetimes from history, and many simulated futures with the real scheduler."""
