"""DynamicResources: devices for claims. See :mod:`.plugin` for the way of a pod, :mod:`.allocator` for the search."""
