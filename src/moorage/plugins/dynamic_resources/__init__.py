"""DynamicResources: devices for claims. See :mod:`.plugin` for the way of a pod, :mod:`.allocator` for the search."""

from moorage.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
