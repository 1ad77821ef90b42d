"""The supervisor: a small process for lease, health, signals and watchdog, which must not wait for the scheduler."""
