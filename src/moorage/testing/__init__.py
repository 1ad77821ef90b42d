"""For plugin authors: object builders, random clusters, check_plugin, and complete clusters to run plugins on.

The random strategies need hypothesis (``pip install moorage[testing]``), which is imported on first use.
"""

from typing import TYPE_CHECKING, Any

from moorage.testing.builders import make_node, make_pod

if TYPE_CHECKING:
    from moorage.testing.checks import check_plugin
    from moorage.testing.cluster import Cluster, in_virtual_time
    from moorage.testing.strategies import clusters, nodes, pods

__all__ = ["Cluster", "check_plugin", "clusters", "in_virtual_time", "make_node", "make_pod", "nodes", "pods"]


def __getattr__(name: str) -> Any:
    if name == "check_plugin":
        from moorage.testing.checks import check_plugin

        return check_plugin
    if name in ("Cluster", "in_virtual_time"):
        from moorage.testing import cluster

        return getattr(cluster, name)
    if name in ("clusters", "nodes", "pods"):
        from moorage.testing import strategies

        return getattr(strategies, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
