"""Metrics as a registry whose single values tests can query."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector


def exposing(collector: Collector) -> CollectorRegistry:
    """Make a registry that exposes one collector and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
