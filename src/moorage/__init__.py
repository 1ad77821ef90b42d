"""Moorage: the Kubernetes scheduler in Python.

This package exports all names that plugin authors need, and :class:`Session` for scripts and notebooks. They are the
public API. Each is imported on first use. For tests there is :mod:`moorage.testing`.

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
    from moorage.common.errors import (
        AlreadyExists,
        ApiError,
        Conflict,
        InputError,
        MoorageError,
        NotFound,
        NotStored,
        PluginError,
        ServiceError,
    )
    from moorage.insight import Session
    from moorage.insight.plan.goals import plan
    from moorage.kube.api.affinity import Taint, Toleration
    from moorage.kube.api.custom import CustomObject, RawNode, RawPod, custom_kind
    from moorage.kube.api.meta import Condition, KubeObject, ObjectMeta, OwnerReference, format_time, parse_time
    from moorage.kube.api.node import Node
    from moorage.kube.api.pod import Pod, PodSpec, PodStatus
    from moorage.kube.api.quantity import Quantity, milli_value, nano_value, unit_value
    from moorage.kube.api.records import EventNote
    from moorage.kube.api.requests import Amounts, countable
    from moorage.kube.api.selectors import LabelSelector, label_matcher
    from moorage.kube.api.struct import KubeStruct, once
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.kube.client.rest import ApiClient
    from moorage.kube.http.web_service import WebService
    from moorage.scheduler.framework.columns import Categorical
    from moorage.scheduler.framework.cycle import ASSUMED, CycleState, StateKey
    from moorage.scheduler.framework.events import (
        Action,
        ClusterEvent,
        EventRegistration,
        QueueingHint,
        Resource,
        queue_if,
    )
    from moorage.scheduler.framework.functions import filter_function, score_function
    from moorage.scheduler.framework.group_plugins import (
        GroupPostFilterResult,
        GroupSourcePlugin,
        PlacementFeasiblePlugin,
        PlacementGeneratePlugin,
        PlacementScorePlugin,
        PodGroupPostFilterPlugin,
    )
    from moorage.scheduler.framework.groups import DescribedGroup, GroupTree, Placement
    from moorage.scheduler.framework.handle import ClusterApi, Handle, Lister, Nominator, PreemptionHandle, WaitingPod
    from moorage.scheduler.framework.logs import PluginLog
    from moorage.scheduler.framework.metering import PluginMetrics
    from moorage.scheduler.framework.node_statuses import NodeStatuses
    from moorage.scheduler.framework.nodeinfo import NodeInfo
    from moorage.scheduler.framework.nodetable import NodeTable
    from moorage.scheduler.framework.plugin import (
        BindPlugin,
        DependsOn,
        FilterPlugin,
        Hold,
        NodeNames,
        PermitPlugin,
        Plugin,
        PostBindPlugin,
        PostFilterPlugin,
        PostFilterResult,
        PreBindPlugin,
        PreEnqueuePlugin,
        PreFilterExtensions,
        PreFilterPlugin,
        PreScorePlugin,
        QueuedPod,
        QueueSortPlugin,
        ReservePlugin,
        ScorePlugin,
        Wait,
        default_normalize,
    )
    from moorage.scheduler.framework.polling import Polled
    from moorage.scheduler.framework.status import (
        MAX_NODE_SCORE,
        MIN_NODE_SCORE,
        BoolArray,
        Code,
        FloatArray,
        IntArray,
        Status,
        Verdict,
    )
else:
    _EXPORTS = {
        "common.errors": (
            "AlreadyExists ApiError Conflict InputError MoorageError NotFound NotStored PluginError ServiceError"
        ),
        "insight": "Session",
        "insight.plan.goals": "plan",
        "kube.api.affinity": "Taint Toleration",
        "kube.api.custom": "CustomObject RawNode RawPod custom_kind",
        "kube.api.meta": "Condition KubeObject ObjectMeta OwnerReference format_time parse_time",
        "kube.api.node": "Node",
        "kube.api.pod": "Pod PodSpec PodStatus",
        "kube.api.quantity": "Quantity milli_value nano_value unit_value",
        "kube.api.records": "EventNote",
        "kube.api.requests": "Amounts countable",
        "kube.api.selectors": "LabelSelector label_matcher",
        "kube.api.struct": "KubeStruct once",
        "kube.client.kubeconfig": "load_connection",
        "kube.client.rest": "ApiClient",
        "kube.http.web_service": "WebService",
        "scheduler.framework.columns": "Categorical",
        "scheduler.framework.cycle": "ASSUMED CycleState StateKey",
        "scheduler.framework.events": "Action ClusterEvent EventRegistration QueueingHint Resource queue_if",
        "scheduler.framework.functions": "filter_function score_function",
        "scheduler.framework.group_plugins": (
            "GroupPostFilterResult GroupSourcePlugin PlacementFeasiblePlugin PlacementGeneratePlugin "
            "PlacementScorePlugin PodGroupPostFilterPlugin"
        ),
        "scheduler.framework.groups": "DescribedGroup GroupTree Placement",
        "scheduler.framework.handle": "ClusterApi Handle Lister Nominator PreemptionHandle WaitingPod",
        "scheduler.framework.logs": "PluginLog",
        "scheduler.framework.metering": "PluginMetrics",
        "scheduler.framework.node_statuses": "NodeStatuses",
        "scheduler.framework.nodeinfo": "NodeInfo",
        "scheduler.framework.nodetable": "NodeTable",
        "scheduler.framework.plugin": (
            "BindPlugin DependsOn FilterPlugin Hold NodeNames PermitPlugin Plugin PostBindPlugin "
            "PostFilterPlugin PostFilterResult PreBindPlugin PreEnqueuePlugin PreFilterExtensions PreFilterPlugin "
            "PreScorePlugin QueueSortPlugin QueuedPod ReservePlugin ScorePlugin Wait default_normalize"
        ),
        "scheduler.framework.polling": "Polled",
        "scheduler.framework.status": "MAX_NODE_SCORE MIN_NODE_SCORE BoolArray Code FloatArray IntArray Status Verdict",
    }
    __getattr__, __dir__ = lazy_exports(__name__, {module: names.split() for module, names in _EXPORTS.items()})

__version__ = VERSION

__all__ = [
    "ASSUMED",
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "Action",
    "AlreadyExists",
    "Amounts",
    "ApiClient",
    "ApiError",
    "BindPlugin",
    "BoolArray",
    "Categorical",
    "ClusterApi",
    "ClusterEvent",
    "Code",
    "Condition",
    "Conflict",
    "CustomObject",
    "CycleState",
    "DependsOn",
    "DescribedGroup",
    "EventNote",
    "EventRegistration",
    "FilterPlugin",
    "FloatArray",
    "GroupPostFilterResult",
    "GroupSourcePlugin",
    "GroupTree",
    "Handle",
    "Hold",
    "InputError",
    "IntArray",
    "KubeObject",
    "KubeStruct",
    "LabelSelector",
    "Lister",
    "MoorageError",
    "Node",
    "NodeInfo",
    "NodeNames",
    "NodeStatuses",
    "NodeTable",
    "Nominator",
    "NotFound",
    "NotStored",
    "ObjectMeta",
    "OwnerReference",
    "PermitPlugin",
    "Placement",
    "PlacementFeasiblePlugin",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "Plugin",
    "PluginError",
    "PluginLog",
    "PluginMetrics",
    "Pod",
    "PodGroupPostFilterPlugin",
    "PodSpec",
    "PodStatus",
    "Polled",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreScorePlugin",
    "PreemptionHandle",
    "Quantity",
    "QueueSortPlugin",
    "QueuedPod",
    "QueueingHint",
    "RawNode",
    "RawPod",
    "ReservePlugin",
    "Resource",
    "ScorePlugin",
    "ServiceError",
    "Session",
    "StateKey",
    "Status",
    "Taint",
    "Toleration",
    "Verdict",
    "Wait",
    "WaitingPod",
    "WebService",
    "countable",
    "custom_kind",
    "default_normalize",
    "filter_function",
    "format_time",
    "label_matcher",
    "load_connection",
    "milli_value",
    "nano_value",
    "once",
    "parse_time",
    "plan",
    "queue_if",
    "score_function",
    "unit_value",
]
