"""The decision format: what the scheduler decided for a pod, and why, as data."""
