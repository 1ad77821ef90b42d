"""Moorage: the Kubernetes scheduler in Python.

The names a plugin author needs are here, and :class:`Session` for scripts and notebooks; each is imported when it is
first asked for. For tests there is :mod:`moorage.testing`.

>>> from moorage import FilterPlugin, Status
>>> class SpotOnly(FilterPlugin):
...     def filter(self, cycle, pod, node):
...         return None if node.labels.get("capacity") == "spot" else Status.unresolvable("node(s) were not spot")
>>> SpotOnly.name
'SpotOnly'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moorage.insight.whatif.session import Session
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

__version__ = "0.1.0"

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

_ELSEWHERE = {
    "ClusterEvent": "scheduler.framework.events",
    "CycleState": "scheduler.framework.cycle",
    "EventRegistration": "scheduler.framework.events",
    "Handle": "scheduler.framework.handle",
    "NodeInfo": "scheduler.framework.nodeinfo",
    "NodeTable": "scheduler.framework.nodetable",
    "Pod": "kube.api.pod",
    "QueueingHint": "scheduler.framework.events",
    "Session": "insight.whatif.session",
    "StateKey": "scheduler.framework.cycle",
    "Status": "scheduler.framework.status",
    "Verdict": "scheduler.framework.status",
    "filter_function": "scheduler.framework.functions",
    "score_function": "scheduler.framework.functions",
}
"""Where a public name comes from, if that is not ``scheduler.framework.plugin``."""


def __getattr__(name: str) -> Any:
    """Import a public name: ``import moorage`` alone stays fast, for the command line asks for the version only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"moorage.{_ELSEWHERE.get(name, 'scheduler.framework.plugin')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
