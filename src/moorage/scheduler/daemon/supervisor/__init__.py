"""The keeper: a small process beside the scheduler for what may not wait for it: lease, health, signals, watchdog."""
