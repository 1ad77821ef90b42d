"""Metrics as a registry that tests can ask for single values."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector


def exposing(collector: Collector) -> CollectorRegistry:
    """Make a registry that exposes one collector and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
