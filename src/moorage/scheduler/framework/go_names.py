"""Names of Go plugins and of earlier framework versions, with the Python code that replaces them."""

from collections.abc import Collection
from typing import Final

from moorage.common.errors import did_you_mean

RENAMED: Final = {
    "normalizescore": "normalize_scores",
    "normalisescore": "normalize_scores",
    "normalisescores": "normalize_scores",
    "signpod": "sign",
    "eventtoregister": "events_to_register",
    "eventsregister": "events_to_register",
    "registerevents": "events_to_register",
    "queuesort": "less",
    "predicate": "filter",
    "predicates": "filter",
    "predicatefn": "filter",
    "prioritize": "score",
    "prioritizers": "score",
    "nodeorder": "score",
    "nodeorderfn": "score",
    "joborderfn": "less",
    "taskorderfn": "less",
    "preflight": "pre_bind_pre_flight",
    "prebindpreflights": "pre_bind_pre_flight",
    "placementgenerate": "generate_placements",
    "generateplacement": "generate_placements",
    "placementscore": "score_placement",
    "normalizeplacementscore": "normalize_placement_scores",
    "podgrouppostfilter": "post_filter_group",
    "postfilterpodgroup": "post_filter_group",
    "jobenqueueablefn": "pre_enqueue",
    "onsessionopen": "start",
    "onsessionclose": "close",
}
"""The Python method for a method of Go, Volcano or an old version, by :func:`plain` name."""

_TRANSFORMER: Final = "there are no transformers: store what `filter` and `score` need in `pre_filter`"
REMOVED: Final = {
    "scoreextensions": "it is not needed: write `def normalize_scores(self, cycle, pod, nodes, scores)`",
    "prefilterextensions": "it is not needed: inherit from PreFilterExtensions and define `add_pod` and `remove_pod`",
    "placementscoreextensions": "it is not needed: write `normalize_placement_scores(self, cycle, group, placements, "
    "scores)`",
    "beforeprefilter": _TRANSFORMER,
    "afterprefilter": _TRANSFORMER,
    "beforefilter": _TRANSFORMER,
    "beforescore": _TRANSFORMER,
}
"""Advice for methods without a counterpart."""

IMPORTS: Final = {
    "ClusterEventWithHint": "EventRegistration(event, hint)",
    "EnqueueExtensions": "the method events_to_register, which every plugin has",
    "Framework": "Handle",
    "FrameworkHandle": "Handle",
    "MaxNodeScore": "MAX_NODE_SCORE",
    "MinNodeScore": "MIN_NODE_SCORE",
    "NewStatus": "Status.unschedulable('…'), or another constructor of Status",
    "NodeScore": "IntArray: scores are one array, in the order of the nodes",
    "NodeScoreList": "IntArray: scores are one array, in the order of the nodes",
    "NodeToStatus": "NodeStatuses",
    "NodeToStatusMap": "NodeStatuses",
    "PluginContext": "CycleState",
    "PodInfo": "Pod",
    "PodsToActivate": "cycle.activate(pod)",
    "PreFilterResult": "NodeNames(frozenset(…))",
    "QueuedPodInfo": "QueuedPod",
    "ScoreExtensions": "the method normalize_scores of ScorePlugin",
    "SharedLister": "handle.nodes",
    "StateData": "any object; a method clone is optional",
    "SignPlugin": "the method sign, which every plugin has",
    "UnreservePlugin": "ReservePlugin, which has both methods",
}
"""Replacements of Go types, for `from moorage import …`."""


def plain(name: str) -> str:
    """Return a name in lower case without underscores, so that `PreFilter` equals `pre_filter`."""
    return name.replace("_", "").lower()


def python_import(name: str, exported: Collection[str]) -> str:
    """Return what to import instead of a name that does not exist, or an empty string."""
    return f"use {IMPORTS[name]}" if name in IMPORTS else did_you_mean(name, exported)
