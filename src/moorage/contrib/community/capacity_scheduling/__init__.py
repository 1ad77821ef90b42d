"""CapacityScheduling: namespaces have a guaranteed share and a limit, and borrow what others leave idle."""
