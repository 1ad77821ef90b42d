"""Everything a plugin author sees, and nothing else."""
