"""For plugin authors: object builders, random clusters, check_plugin, and complete clusters to run plugins on.

The random strategies need hypothesis (``pip install moorage[testing]``), which is imported on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.testing.builders import make_node, make_pod
    from moorage.testing.checks import check_plugin
    from moorage.testing.cluster import Cluster, in_virtual_time
    from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, run_filter, run_score
    from moorage.testing.strategies import clusters, nodes, pods
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "builders": ("make_node", "make_pod"),
            "checks": ("check_plugin",),
            "cluster": ("Cluster", "in_virtual_time"),
            "rig": ("FORMS", "SCORE_FORMS", "FilterForm", "Rig", "ScoreForm", "run_filter", "run_score"),
            "strategies": ("clusters", "nodes", "pods"),
        },
    )

__all__ = [
    "FORMS",
    "SCORE_FORMS",
    "Cluster",
    "FilterForm",
    "Rig",
    "ScoreForm",
    "check_plugin",
    "clusters",
    "in_virtual_time",
    "make_node",
    "make_pod",
    "nodes",
    "pods",
    "run_filter",
    "run_score",
]
