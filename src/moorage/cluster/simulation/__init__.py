"""The scheduler on a cluster that exists only in memory, in virtual time."""
