"""Feature gates: flags, emulated versions, and the reference page."""
