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
    from moorage.api.pod import Pod
    from moorage.framework.cycle import CycleState, StateKey
    from moorage.framework.events import ClusterEvent, EventRegistration, QueueingHint
    from moorage.framework.functions import filter_function, score_function
    from moorage.framework.handle import Handle
    from moorage.framework.nodeinfo import NodeInfo
    from moorage.framework.nodetable import NodeTable
    from moorage.framework.plugin import (
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
    from moorage.framework.status import Status, Verdict
    from moorage.whatif.session import Session

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
    "ClusterEvent": "framework.events",
    "CycleState": "framework.cycle",
    "EventRegistration": "framework.events",
    "Handle": "framework.handle",
    "NodeInfo": "framework.nodeinfo",
    "NodeTable": "framework.nodetable",
    "Pod": "api.pod",
    "QueueingHint": "framework.events",
    "Session": "whatif.session",
    "StateKey": "framework.cycle",
    "Status": "framework.status",
    "Verdict": "framework.status",
    "filter_function": "framework.functions",
    "score_function": "framework.functions",
}
"""Where a public name comes from, if that is not ``framework.plugin``."""


def __getattr__(name: str) -> Any:
    """Import a public name: ``import moorage`` alone stays fast, for the command line asks for the version only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"moorage.{_ELSEWHERE.get(name, 'framework.plugin')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
