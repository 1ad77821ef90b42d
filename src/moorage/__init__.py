"""Moorage: the Kubernetes scheduler in Python.

This package exports the names that plugin authors need, and :class:`Session` for scripts and notebooks. Each name is
imported on first use. For tests there is :mod:`moorage.testing`.

>>> from moorage import FilterPlugin, Status
>>> class SpotOnly(FilterPlugin):
...     def filter(self, cycle, pod, node):
...         return None if node.labels.get("capacity") == "spot" else Status.unresolvable("node(s) were not spot")
>>> SpotOnly.name
'SpotOnly'
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports
from moorage.common.version import VERSION

if TYPE_CHECKING:
    from moorage.insight import Session
    from moorage.kube.api.pod import Pod
    from moorage.scheduler.framework.cycle import CycleState, StateKey
    from moorage.scheduler.framework.events import ClusterEvent, EventRegistration, QueueingHint
    from moorage.scheduler.framework.functions import filter_function, score_function
    from moorage.scheduler.framework.handle import Handle
    from moorage.scheduler.framework.nodeinfo import NodeInfo
    from moorage.scheduler.framework.nodetable import NodeTable
    from moorage.scheduler.framework.plugin import (
        BindPlugin,
        DependsOn,
        FilterPlugin,
        NodeNames,
        PermitPlugin,
        PostBindPlugin,
        PostFilterPlugin,
        PostFilterResult,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterExtensions,
        PreFilterPlugin,
        PreScorePlugin,
        QueueSortPlugin,
        ReservePlugin,
        ScorePlugin,
        Wait,
    )
    from moorage.scheduler.framework.status import Status, Verdict
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "insight": ("Session",),
            "kube.api.pod": ("Pod",),
            "scheduler.framework.cycle": ("CycleState", "StateKey"),
            "scheduler.framework.events": ("ClusterEvent", "EventRegistration", "QueueingHint"),
            "scheduler.framework.functions": ("filter_function", "score_function"),
            "scheduler.framework.handle": ("Handle",),
            "scheduler.framework.nodeinfo": ("NodeInfo",),
            "scheduler.framework.nodetable": ("NodeTable",),
            "scheduler.framework.plugin": (
                "BindPlugin",
                "DependsOn",
                "FilterPlugin",
                "NodeNames",
                "PermitPlugin",
                "PostBindPlugin",
                "PostFilterPlugin",
                "PostFilterResult",
                "PreBindPlugin",
                "PreEnqueuePlugin",
                "PreFilterExtensions",
                "PreFilterPlugin",
                "PreScorePlugin",
                "QueueSortPlugin",
                "ReservePlugin",
                "ScorePlugin",
                "Wait",
            ),
            "scheduler.framework.status": ("Status", "Verdict"),
        },
    )

__version__ = VERSION

__all__ = [
    "BindPlugin",
    "ClusterEvent",
    "CycleState",
    "DependsOn",
    "EventRegistration",
    "FilterPlugin",
    "Handle",
    "NodeInfo",
    "NodeNames",
    "NodeTable",
    "PermitPlugin",
    "Pod",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueueingHint",
    "ReservePlugin",
    "ScorePlugin",
    "Session",
    "StateKey",
    "Status",
    "Verdict",
    "Wait",
    "filter_function",
    "score_function",
]
