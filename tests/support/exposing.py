"""A metrics registry with values that tests can query."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector


def exposing(collector: Collector) -> CollectorRegistry:
    """Make a registry with one collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
