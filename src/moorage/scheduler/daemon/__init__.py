"""`moorage scheduler`: the daemon, its options, metrics, pages and supervisor."""
