"""What-if sessions: a copy of a cluster with changes that can be undone, and the scheduler's decisions on it."""
