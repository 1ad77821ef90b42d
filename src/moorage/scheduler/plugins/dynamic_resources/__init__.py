"""DynamicResources: devices for claims. Start at :mod:`.plugin`. :mod:`.allocation.allocator` is the search."""
