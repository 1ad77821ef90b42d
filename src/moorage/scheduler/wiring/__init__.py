"""Where a scheduler is put together, the same way for the daemon, a cluster in a box, simulations and tests."""
