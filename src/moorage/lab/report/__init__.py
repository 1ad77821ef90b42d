"""The report of an experiment: one HTML page that needs nothing else."""
