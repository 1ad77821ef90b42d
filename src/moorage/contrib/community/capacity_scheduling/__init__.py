"""CapacityScheduling: namespaces have a guaranteed share and a limit, and borrow idle shares of other namespaces."""
