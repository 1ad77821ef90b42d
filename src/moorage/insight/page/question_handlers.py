"""Handlers of the page's questions: details of a pod, details of a node, and suggested changes."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError, MoorageError, did_you_mean
from moorage.insight.explain import text
from moorage.insight.explain.explanation import PodExplanation
from moorage.insight.explain.groups import list_active_pods
from moorage.insight.explain.obstacles import find_obstacles
from moorage.insight.explain.pods import compare, explain_pod
from moorage.insight.forecast.forecasting import ForecastOptions, forecast_queue
from moorage.insight.page.pending_groups import describe_owner
from moorage.insight.page.what_if import try_changes
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.plan_text import plan_lines
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodeinfo import NodeInfo

POD_SECONDS: Final = 5.0
"""Time limit in seconds of the search for changes of a pod."""
HELP_SECONDS: Final = 2.0
FORECAST_SECONDS: Final = 10.0
FORECAST_DRAWS: Final = 30
MAX_FORECASTS: Final = 200
MAX_ALMOST: Final = 20
ALMOST_SECONDS: Final = 2.0


def answer(session: Session, question: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of a question. Raise InputError if the question is invalid. The session is restored."""
    handler = QUESTIONS.get(question)
    if handler is None:
        raise InputError(question, "unknown question", hint=f"use one of {', '.join(QUESTIONS)}")
    with session.branch():
        return handler(session, arguments)


def _name(arguments: Mapping[str, Any], key: str) -> str:
    name = arguments.get(key)
    if not isinstance(name, str) or not name:
        raise InputError(key, "missing parameter", hint=f"add {key}=NAME to the URL")
    return name


def explain(session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the explanation of a pod, as `moorage explain` prints it, and the results of all plugins."""
    key = _name(arguments, "pod")
    explained = explain_pod(session, key, seconds=POD_SECONDS, with_changes=arguments.get("changes") != "no")
    pod = session.pod(key)
    return {
        "pod": explained.decision.pod,
        "headline": text.headline(explained),
        "node": explained.decision.node,
        "isBound": explained.is_bound,
        "result": "bound" if explained.is_bound else explained.decision.result,
        "facts": {
            "requests": dict(pod.requests),
            "priority": pod.priority,
            "profile": pod.scheduler_name,
            "labels": dict(pod.labels),
            "owner": describe_owner(pod),
            "created": pod.metadata.creation_timestamp or "",
            "nominated": pod.nominated_node_name,
            "tolerations": len(pod.spec.tolerations),
            "gates": [gate.name for gate in pod.spec.scheduling_gates],
        },
        "reasons": [{"line": text.group_line(item), **msgspec.to_builtins(item)} for item in explained.reasons],
        "preemption": explained.decision.post_filter,
        "changes": [{"line": text.change_line(item), **msgspec.to_builtins(item)} for item in explained.changes],
        "stopped": explained.stopped,
        "isSearched": arguments.get("changes") != "no",
        "because": msgspec.to_builtins(explained.because),
        "runnerUp": explained.runner_up,
        "wakes": msgspec.to_builtins(explained.wakes),
        "notes": list(explained.notes),
        "group": explained.group,
        "table": _table(session, pod, explained),
    }


def _table(session: Session, pod: Pod, explained: PodExplanation) -> dict[str, Any]:
    """Return the results of all plugins for all nodes, not only of the first that rejects. Texts are sent once."""
    with session.branch():
        pending_pod = session.unplace(pod) if pod.node_name else pod
        attempt = session.try_pod(pending_pod, preempts=False)
        obstacles = find_obstacles(session, pending_pod, attempt)
        profile, nodes = session.find_runner(pending_pod).profile, session.scheduler.cache.nodes
        scoring = list(profile.weights)
        texts: dict[str, int] = {}

        def make_row(info: NodeInfo) -> list[Any]:
            """Return the name, the text of each rejecting plugin by its index, the total, and the weighted scores."""
            rejections = {
                plugin: texts.setdefault("; ".join(status.reasons) or status.message, len(texts))
                for plugin, status in obstacles.of(info.row).items()
            }
            entry = explained.decision.nodes.get(info.name)
            if entry is None or entry.scores is None:
                return [info.name, rejections, None, None]
            scores = [entry.scores[name].weighted if name in entry.scores else None for name in scoring]
            return [info.name, rejections, entry.total, scores]

        rows = [make_row(info) for info in nodes]
        return {
            "filters": [plugin.name for plugin in profile.filter],
            "objecting": obstacles.plugins(),
            "scores": scoring,
            "weights": dict(profile.weights),
            "texts": list(texts),
            "rows": rows,
        }


def node(session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pods on a node, and its near misses."""
    name = _name(arguments, "node")
    info = session.scheduler.cache.node(name)
    if info is None:
        node_names = session.scheduler.cache.nodes.names
        raise InputError(f"Node {name}", "node not found", hint=did_you_mean(name, node_names))
    return {
        **node_facts(info),
        "almost": _find_rejected_pods(session, info),
        "second": _find_second_choices(session, info),
    }


def node_facts(info: NodeInfo) -> dict[str, Any]:
    """Describe a node and the pods on it, the largest first."""
    node_object = info.node
    return {
        "node": info.name,
        "labels": dict(info.labels),
        "taints": [msgspec.to_builtins(taint) for taint in node_object.taints],
        "isCordoned": node_object.spec.unschedulable,
        "conditions": [
            {"type": item.type, "status": item.status, "reason": item.reason, "since": item.last_transition_time}
            for item in node_object.status.conditions
        ],
        "created": node_object.metadata.creation_timestamp or "",
        "allocatable": dict(info.allocatable),
        "requested": {**info.requested, "pods": len(info.pods)},
        "pods": [
            {"pod": pod.key, "requests": dict(pod.requests), "priority": pod.priority, "owner": describe_owner(pod)}
            for pod in sorted(info.pods.values(), key=lambda pod: (-pod.requests.get("cpu", 0), pod.key))
        ],
    }


def _find_rejected_pods(session: Session, info: NodeInfo) -> list[dict[str, Any]]:
    """List pending pods and why they are not on this node, those with the fewest obstacles first."""
    kinds: dict[Any, Pod] = {}
    for pod in list_active_pods(session):
        if len(kinds) < MAX_ALMOST and not pod.node_name and pod.scheduler_name in session.scheduler.runners:
            # Pods that differ only in their names have the same obstacles.
            kinds.setdefault((pod.namespace, pod.shape, tuple(sorted(pod.labels.items()))), pod)
    near_misses = []
    end = monotonic() + ALMOST_SECONDS
    for pod in kinds.values():
        if monotonic() > end:
            break
        attempt = session.try_pod(pod, preempts=False)
        obstacles = find_obstacles(session, pod, attempt).of(info.row)
        reasons = [{"plugin": plugin, "text": "; ".join(item.reasons)} for plugin, item in obstacles.items()]
        reasons += [{"plugin": gate.plugin, "text": gate.message} for gate in attempt.gates]
        near_misses.append({"pod": pod.key, "obstacles": reasons})
    return sorted(near_misses, key=lambda item: len(item["obstacles"]))


def _find_second_choices(session: Session, info: NodeInfo) -> list[dict[str, Any]]:
    """Return pods on other nodes for which this node is the second choice. Only the youngest are checked."""
    candidates = [pod for pod in list_active_pods(session) if pod.node_name and pod.node_name != info.name]
    candidates.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key), reverse=True)
    near_misses = []
    end = monotonic() + ALMOST_SECONDS
    for pod in candidates[:MAX_ALMOST]:
        if monotonic() > end or pod.scheduler_name not in session.scheduler.runners:
            break
        with session.branch():
            pending_pod = session.unplace(pod)
            attempt = session.try_pod(pending_pod, in_detail=True, preempts=False)
            because, runner_up = compare(session, pending_pod, attempt.decision, pod.node_name)
        if runner_up == info.name:
            lead = sum(item.winner - item.runner_up for item in because)
            near_misses.append({"pod": pod.key, "node": pod.node_name, "lead": lead})
    return near_misses


def helps(session: Session, arguments: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the first suggested change and the decisive reason for each pod, or empty texts."""
    suggestions: dict[str, tuple[str, str]] = {}
    for key in arguments.get("pods") or ():
        try:
            explained = explain_pod(session, str(key), seconds=HELP_SECONDS)
        except MoorageError:
            continue  # it was deleted, or belongs to another scheduler
        change = text.change_line(explained.changes[0]) if explained.changes else ""
        suggestions[str(key)] = (change, explained.reasons[0].reason if explained.reasons else "")
    return suggestions


def plan(session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Plan to drain a node, or to fit a pending pod. Return the lines of `moorage plan`."""
    result = (
        plan_drain(session, [_name(arguments, "node")])
        if "node" in arguments
        else plan_room(session, [_name(arguments, "pod")], goal="fit")
    )
    return {"isFeasible": result.feasible, "lines": list(plan_lines(result))}


def forecast(session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Forecast when the pending pods start, the earliest first."""
    namespace = str(arguments.get("namespace", ""))
    options = ForecastOptions(draws=FORECAST_DRAWS)
    data = forecast_queue(session, options, namespace=namespace, seconds=FORECAST_SECONDS).as_data()
    return {**data, "pods": data["pods"][:MAX_FORECASTS], "count": len(data["pods"])}


QUESTIONS: Final[Mapping[str, Callable[[Session, Mapping[str, Any]], Any]]] = {
    "pod": explain,
    "node": node,
    "helps": helps,
    "plan": plan,
    "forecast": forecast,
    "try": try_changes,
}
"""The handlers by name."""
