"""Explain one pod: its state, the rejected nodes, suggested changes, and the events that trigger a retry."""

from collections import Counter
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.insight.explain.explanation import (
    PodExplanation,
    PossibleChange,
    ReasonGroup,
    ScoreDifference,
    WakingEvent,
)
from moorage.insight.explain.fixes.resources import format_amount, shortage
from moorage.insight.explain.group_search import search_group
from moorage.insight.explain.groups import (
    GroupView,
    described_key,
    group_facts,
    is_scheduled_with_group,
    place_members,
    remove_gates,
    view_group,
)
from moorage.insight.explain.notes import find_notes
from moorage.insight.explain.obstacles import INSUFFICIENT, TOO_MANY_PODS, Obstacles, find_obstacles
from moorage.insight.explain.search import SEVERAL, merge_edits, search
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import DEFAULT_SECONDS, Limits, Remedy, find_violated_budgets
from moorage.insight.plan.making_room import suggest_moves
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, PatchObject, decode_edit, put
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import MADE_FOR, TemplateClaims, make_template_claims
from moorage.kube.api.pod import Pod
from moorage.kube.patches import json_patch
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.framework.events import Action, ClusterEvent
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Code, Status

MAX_EXAMPLES: Final = 3
MAX_HINTED: Final = 5
PODS: Final = "pods"
TAINTS: Final = "TaintToleration"
CLOSED_NODES: Final = frozenset((TAINTS, "NodeUnschedulable"))
"""Plugins that reject nodes which an operator has tainted or cordoned."""
CONTRADICTION: Final = (
    "the pod fits with the configuration of this command: if the scheduler uses another one, pass its --config and "
    "--plugin; otherwise the cluster has changed since the report"
)


def explain_pod(
    session: Session,
    key: str,
    *,
    node: str = "",
    seconds: float = DEFAULT_SECONDS,
    with_changes: bool = True,
    spared: frozenset[str] = frozenset(),
) -> PodExplanation:
    """Explain a pod. ``node`` restricts the explanation to one node, ``spared`` pods must not be evicted for it."""
    pod = session.pod(key)
    if pod.is_finished:
        raise InputError(f"Pod {pod.key}", f"the pod has finished ({pod.status.phase})")
    if pod.is_terminating and not pod.node_name:
        raise InputError(f"Pod {pod.key}", "the pod is being deleted")
    if pod.scheduler_name not in session.scheduler.runners:
        return _explain_foreign(session, pod, node, seconds, with_changes)
    if node and session.scheduler.cache.node(node) is None:
        names = list(session.scheduler.cache.nodes.names)
        existing = f"the nodes are {', '.join(names[:MAX_HINTED])}{', …' if len(names) > MAX_HINTED else ''}"
        hint = did_you_mean(node, names) or (existing if names else "the cluster has no nodes")
        raise InputError(f"--node {node}", "node not found", hint=hint)
    with session.branch():
        if pod.node_name:
            return _explain_bound(session, pod, node)
        if not node and is_scheduled_with_group(session, pod):
            return explain_member(session, pod, view_group(session, pod.group_key or ""), seconds)
        if not node and (key := described_key(session, pod)):
            # Only a plugin defines the group: it has no object that can be changed.
            outcome = session.try_group(key, in_detail=True)
            return _describe(session, pod, outcome.decisions[pod.key], outcome.gates[:1])
        if with_changes and (claims := make_template_claims(session, pod)).edits:
            return _explain_unclaimed(session, pod, claims, node, seconds)
        attempt = session.try_pod(pod, in_detail=True)
        obstacles = find_obstacles(session, pod, attempt) if not attempt.decision.node else None
        explained = _describe(session, pod, attempt.decision, attempt.gates, obstacles)
        entry = explained.decision.nodes.get(node)
        if with_changes and (not explained.decision.node or (node and (entry is None or entry.is_rejected))):
            result = search(session, pod.key, only_node=node, seconds=seconds, spared=spared)
            changes = tuple(map(_to_change, result.offers))
            if session.honors_nominations:  # in files, no controller creates the claim again
                changes = tuple(_on_ephemeral_volumes(change, pod) for change in changes)
            faults = _describe_faults(session, explained.decision)
            explained = replace(explained, changes=changes, stopped=result.stopped, notes=(*explained.notes, *faults))
        victims = attempt.decision.post_filter.victims if attempt.decision.post_filter is not None else ()
        if names := find_violated_budgets(session, victims):
            note = f"the preemption violates the disruption budget {' and '.join(names)}: no other pods can make room"
            explained = replace(explained, notes=(*explained.notes, note))
        if with_changes and not node and obstacles is not None and (moves := suggest_moves(session, pod.key)):
            explained = replace(explained, notes=(*explained.notes, moves))
        condition = pod.condition("PodScheduled") if explained.decision.node else None
        if condition is not None and condition.status == "False" and condition.reason == "Unschedulable":
            explained = replace(explained, notes=(*explained.notes, CONTRADICTION), reported=condition.message)
        return _restrict_to_node(explained, node)


def _describe_faults(session: Session, decision: Decision) -> Iterator[str]:
    """Describe the exceptions of plugins in the trials. The message of the decision contains its own."""
    for fault in session.scheduler.profiles.faults():
        if fault not in decision.message:
            remedy = f"fix the plugin, or disable it in the profile {decision.profile}"
            yield f"{fault}, so changes may be missing; {remedy}"


def _explain_foreign(session: Session, pod: Pod, node: str, seconds: float, with_changes: bool) -> PodExplanation:
    """Explain a pod of another scheduler by the first profile of the configuration.

    If its schedulerName is probably misspelt, each change includes the correction.
    """
    names = list(session.scheduler.runners)
    target = ObjectId("Pod", pod.namespace, pod.name)
    intended = find_intended(pod.scheduler_name, names)
    profile = intended or names[0]
    operation = put(session.objects.content(target), ("spec", "schedulerName"), profile)
    edit = PatchObject(target, (operation,), must_replace=True, api_version="v1")
    hint = did_you_mean(pod.scheduler_name, names)
    responsible = f"another scheduler is responsible: schedulerName is {pod.scheduler_name}"
    note = f"{responsible}{f' ({hint})' if hint else ''}; this is the result if it were {profile}"
    with session.branch():
        session.apply(edit)
        explained = explain_pod(session, pod.key, node=node, seconds=seconds, with_changes=with_changes)
    changes = explained.changes
    text = f"Change schedulerName from {pod.scheduler_name} to {profile}"
    text += "" if intended else f", if no scheduler {pod.scheduler_name} runs"
    fitting = (PossibleChange(text, "scheduler", [], explained.decision.node),) if explained.decision.node else ()
    if intended or fitting:
        changes = tuple(_correct_scheduler(change, text, edit) for change in (*fitting, *changes))
    decision = replace(explained.decision, profile=pod.scheduler_name)
    return replace(explained, decision=decision, notes=(note, *explained.notes), changes=changes)


def _explain_unclaimed(session: Session, pod: Pod, claims: TemplateClaims, node: str, seconds: float) -> PodExplanation:
    """Explain a pod without the claims of its templates as if the claim controller had created them.

    Changes of these claims become changes of their templates.
    """
    decision = _describe(session, pod, *_try_gated(session, pod)).decision
    names = " and ".join(target.name for target in dict.fromkeys(claims.templates.values()))
    missing_claims = (
        f"its resource claims from the template {names} do not exist yet: the claim controller creates them"
    )
    with session.branch():
        session.apply(*claims.edits)
        explained = explain_pod(session, pod.key, node=node, seconds=seconds)
    content = session.objects.content(ObjectId("Pod", pod.namespace, pod.name))
    changes = tuple(_on_claim_templates(change, claims, content) for change in explained.changes)
    if explained.decision.node:
        text = f"Start the claim controller of kube-controller-manager: it creates the claims from the template {names}"
        edits = [edit.as_data() for edit in claims.edits]
        changes = (PossibleChange(text, "claim", edits, explained.decision.node),)
    return replace(explained, decision=decision, notes=(missing_claims, *explained.notes), changes=changes, because=())


def _try_gated(session: Session, pod: Pod) -> tuple[Decision, tuple[Status, ...]]:
    attempt = session.try_pod(pod, in_detail=True)
    return attempt.decision, attempt.gates


def _on_claim_templates(change: PossibleChange, claims: TemplateClaims, pod: dict[str, Any]) -> PossibleChange:
    """Create the claims that the pod keeps as a part of a change, and change the template instead of its claim."""
    text, created = change.text, {edit.target: edit for edit in claims.edits if isinstance(edit, PatchObject)}
    contents = {ObjectId.of(edit.content): edit.content for edit in claims.edits if isinstance(edit, CreateObject)}
    edits: list[Edit] = []
    for edit in map(decode_edit, change.edits):
        if not isinstance(edit, PatchObject) or edit.target not in claims.templates:
            edits.append(edit)
            continue
        template = claims.templates[edit.target]
        contents[edit.target] = json_patch(contents[edit.target], list(edit.operations))
        operations = tuple({**item, "path": f"/spec{item['path']}"} for item in edit.operations)
        edits.append(PatchObject(template, operations, must_replace=True, api_version=edit.api_version))
        text = text.replace(f"the claim {edit.target.name}", f"the claim template {template.name}")
    for edit in edits:
        if isinstance(edit, PatchObject) and edit.target == ObjectId.of(pod):
            pod = json_patch(pod, list(edit.operations))
    claim_names = {entry["name"] for entry in pod["spec"].get("resourceClaims") or ()}
    own: list[Edit] = [
        CreateObject(content)
        for content in contents.values()
        if content["metadata"]["annotations"][MADE_FOR] in claim_names
    ]
    if own:
        own += created.values()
    merged_edits = merge_edits((*own, *edits))
    return replace(change, text=text, edits=[edit.as_data() for edit in merged_edits])


def _on_ephemeral_volumes(change: PossibleChange, pod: Pod) -> PossibleChange:
    """Change the volumes of a pod instead of the claims that the volume controller has created for them."""
    volumes = {
        ObjectId("PersistentVolumeClaim", pod.namespace, f"{pod.name}-{volume.name}"): (index, volume.name)
        for index, volume in enumerate(pod.spec.volumes)
        if volume.ephemeral
    }
    text, edits = change.text, list[Edit]()
    for edit in map(decode_edit, change.edits):
        is_of_volume = isinstance(edit, PatchObject) and edit.target in volumes
        if not isinstance(edit, PatchObject) or not is_of_volume or "volumeName" in str(edit.operations):
            edits.append(edit)
            continue
        index, name = volumes[edit.target]
        path = f"/spec/volumes/{index}/ephemeral/volumeClaimTemplate"
        operations = tuple({**item, "path": f"{path}{item['path']}"} for item in edit.operations)
        edits.append(PatchObject(ObjectId("Pod", pod.namespace, pod.name), operations, True, "v1"))
        text = text.replace(f"the claim {edit.target.name}", f"the ephemeral volume {name}")
    return replace(change, text=text, edits=[edit.as_data() for edit in merge_edits(tuple(edits))])


def _correct_scheduler(change: PossibleChange, text: str, correction: PatchObject) -> PossibleChange:
    if not change.edits:
        return replace(change, edits=[correction.as_data()])
    kind = "pair" if change.kind != SEVERAL else change.kind
    edits = merge_edits((correction, *map(decode_edit, change.edits)))
    return replace(change, text=f"{text}. {change.text}", kind=kind, edits=[edit.as_data() for edit in edits])


def _describe(
    session: Session, pod: Pod, decision: Decision, gates: tuple[Status, ...], obstacles: Obstacles | None = None
) -> PodExplanation:
    """Explain the decision on a pending pod, without changes."""
    reasons = tuple(group_reasons(decision, pod, session.scheduler.cache.nodes, obstacles))
    decision = _mark_gated(decision, gates)
    because, runner_up = compare(session, pod, decision, decision.node)
    return PodExplanation(
        decision=decision,
        reasons=reasons,
        because=because,
        runner_up=runner_up,
        wakes=() if decision.node else tuple(_list_retry_events(session, pod, decision.unschedulable_plugins)),
        group=group_facts(session, pod),
        notes=() if decision.node else find_notes(session, pod),
    )


def explain_member(session: Session, pod: Pod, view: GroupView, seconds: float) -> PodExplanation:
    """Explain a pod that is pending with its group: the result of the group's attempt, and its obstacles."""
    outcome = view.outcome
    decision = _mark_gated(outcome.decisions[pod.key], outcome.gates)
    because, runner_up = compare(session, pod, decision, decision.node)
    explained = PodExplanation(decision=decision, because=because, runner_up=runner_up, group=view.facts())
    if decision.node:
        return explained
    next_decision, reasons = _find_next_obstacle(session, view)
    plugins = sorted({*next_decision.unschedulable_plugins, *decision.unschedulable_plugins}) or ["GangScheduling"]
    wakes = tuple(_list_retry_events(session, pod, plugins))
    result = search_group(session, view, Limits(monotonic() + seconds))
    changes = tuple(_to_change(offer) for offer in result.offers)
    return replace(explained, reasons=reasons, wakes=wakes, changes=changes, stopped=result.stopped)


def _find_next_obstacle(session: Session, view: GroupView) -> tuple[Decision, tuple[ReasonGroup, ...]]:
    """Return the rejected nodes for the first member that does not fit next to the other members."""
    stuck = view.blocked
    if not stuck:
        return next(iter(view.outcome.decisions.values())), ()
    with session.branch():
        session.apply(*remove_gates(session, list(view.outcome.decisions)))
        place_members(session, view.key)
        attempt = session.try_pod(stuck, in_detail=True, preempts=False)
        next_decision = _in_domain(session, attempt.decision, view)
        return next_decision, tuple(group_reasons(next_decision, session.pod(stuck), session.scheduler.cache.nodes))


def _in_domain(session: Session, decision: Decision, view: GroupView) -> Decision:
    """Omit the nodes outside of the domain of the group."""
    if not view.domain:
        return decision
    infos = session.scheduler.cache.nodes
    domain_nodes = {info.name for info in infos if info.labels.get(view.topology_key) == view.domain}
    return replace(decision, nodes={name: entry for name, entry in decision.nodes.items() if name in domain_nodes})


def _mark_gated(decision: Decision, gates: tuple[Status, ...]) -> Decision:
    if not gates:
        return decision
    return replace(
        decision,
        result=Result.GATED,
        node="",
        tied=(),
        # All members of a gated group have the same message.
        message="; ".join(dict.fromkeys(status.message for status in gates)),
        unschedulable_plugins=tuple(sorted({status.plugin for status in gates})),
        post_filter=None,
    )


def _explain_bound(session: Session, pod: Pod, node: str) -> PodExplanation:
    """Explain a pod on a node, as if it were scheduled now and all other pods remained."""
    pending_pod = session.unplace(pod)
    attempt = session.try_pod(pending_pod, in_detail=True, preempts=False)
    because, runner_up = compare(session, pending_pod, attempt.decision, pod.node_name)
    decision = Decision(
        pod=pod.key,
        profile=pod.scheduler_name,
        result=Result.SCHEDULED,
        node=pod.node_name,
        nodes=attempt.decision.nodes,
        pre_filter=attempt.decision.pre_filter,
    )
    reasons = tuple(group_reasons(decision, pending_pod, session.scheduler.cache.nodes))
    has_failed = attempt.decision.result is Result.ERROR
    explained = PodExplanation(
        decision=decision,
        is_bound=True,
        reasons=reasons,
        because=because,
        runner_up=runner_up,
        notes=(f"the nodes cannot be compared: {attempt.decision.message}",) if has_failed else (),
    )
    return _restrict_to_node(explained, node)


def _restrict_to_node(explained: PodExplanation, node: str) -> PodExplanation:
    if not node:
        return explained
    entry = explained.decision.nodes.get(node)
    entries = {} if entry is None else {node: entry}
    return replace(explained, decision=replace(explained.decision, nodes=entries))


def _to_change(offer: Remedy) -> PossibleChange:
    attempt = offer.attempt
    return PossibleChange(
        text=offer.text,
        kind=offer.kind,
        edits=[edit.as_data() for edit in offer.edits],
        node=attempt.node or attempt.nominated_node,
        victims=() if attempt.node else attempt.victims,
    )


def group_reasons(
    decision: Decision, pod: Pod, nodes: NodeTable, obstacles: Obstacles | None = None
) -> list[ReasonGroup]:
    """Group the rejected nodes by reason, the decisive reason first: that of most candidates."""
    if decision.pre_filter is not None:
        pre_filter = decision.pre_filter
        return [ReasonGroup(pre_filter.plugin, reason, len(nodes)) for reason in pre_filter.reasons]
    groups: dict[tuple[str, str], list[str]] = {}
    for name, entry in decision.nodes.items():
        for reason in entry.reasons if entry.is_rejected else ():
            groups.setdefault((entry.plugin, reason), []).append(name)
    candidates = frozenset() if obstacles is None else _find_candidates(nodes, obstacles)
    return [
        ReasonGroup(
            plugin,
            reason,
            len(names),
            tuple(names[:MAX_EXAMPLES]),
            _find_shortage(reason, names, pod, nodes),
            0 if obstacles is None else _count_alone(plugin, names, nodes, obstacles),
            _count_taints(names, pod, nodes) if plugin == TAINTS else {},
        )
        for (plugin, reason), names in sorted(
            groups.items(), key=lambda group: (-len(candidates.intersection(group[1])), -len(group[1]))
        )
    ]


def _find_candidates(nodes: NodeTable, obstacles: Obstacles) -> frozenset[str]:
    """Exclude nodes that cannot run the pod, and then, if nodes remain, nodes that are closed to it."""

    def rank(row: int) -> int:
        lasting = {name for name, item in obstacles.of(row).items() if item.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
        return 2 * bool(lasting - CLOSED_NODES) + bool(lasting & CLOSED_NODES)

    ranks = [rank(row) for row in range(len(nodes))]
    best = min(ranks, default=0)
    return frozenset(name for name, value in zip(nodes.names, ranks, strict=True) if value == best)


def _count_alone(plugin: str, names: Iterable[str], nodes: NodeTable, obstacles: Obstacles) -> int:
    rows = (info.row for name in names if (info := nodes.find(name)) is not None)
    return sum(obstacles.of(row).keys() == {plugin} and len(obstacles.of(row)[plugin].reasons) == 1 for row in rows)


def _count_taints(names: Iterable[str], pod: Pod, nodes: NodeTable) -> dict[str, int]:
    taint_counts: Counter[str] = Counter()
    for name in names:
        info = nodes.find(name)
        for taint in info.taints if info is not None else ():
            if taint.repels_pods and not pod.tolerates(taint):
                taint_counts[taint.text] += 1
    return dict(taint_counts.most_common(MAX_EXAMPLES))


def _find_shortage(reason: str, names: Iterable[str], pod: Pod, nodes: NodeTable) -> dict[str, str]:
    resource = PODS if reason == TOO_MANY_PODS else reason.removeprefix(INSUFFICIENT)
    if resource == reason:
        return {}
    infos = [info for name in names if (info := nodes.find(name)) is not None]
    shortages = [shortage(info, resource, pod.requests.get(resource, 0)) for info in infos]
    least = min((amount for amount in shortages if amount > 0), default=0)
    return {resource: format_amount(resource, least)} if least else {}


def compare(session: Session, pod: Pod, decision: Decision, winner: str) -> tuple[tuple[ScoreDifference, ...], str]:
    """Compare the scores of the winner with those of the runner-up."""
    scored = {name: entry for name, entry in decision.nodes.items() if entry.scores is not None}
    winning_entry = scored.pop(winner, None)
    if winning_entry is None or winning_entry.scores is None or not scored:
        return (), ""
    runner_up = max(scored, key=lambda name: scored[name].total or 0)
    second = scored[runner_up].scores or {}
    weights = session.find_runner(pod).profile.weights
    differences = tuple(
        ScoreDifference(plugin, weights[plugin], score.weighted, second[plugin].weighted if plugin in second else 0)
        for plugin, score in winning_entry.scores.items()
    )
    return differences, runner_up


def _list_retry_events(session: Session, pod: Pod, plugins: Iterable[str]) -> Iterator[WakingEvent]:
    registrations = session.find_runner(pod).profile.registrations()
    listed_events: set[tuple[str, str]] = set()
    for plugin in plugins:
        for registration in registrations.get(plugin, ()):
            for name in event_names(registration.event):
                if (name, plugin) not in listed_events:
                    listed_events.add((name, plugin))
                    yield WakingEvent(name, plugin)


def event_names(event: ClusterEvent) -> list[str]:
    """Return the name of an event, or the names of several that were registered together.

    >>> event_names(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_TAINT))
    ['Node/Add', 'Node/UpdateNodeTaint']
    """
    label = ClusterEvent(event.resource, event.action).label.removeprefix(str(event.resource))
    if label:
        return [f"{event.resource}/{label}"]
    parts = [action for action in Action if action & event.action]
    if event.action & Action.UPDATE == Action.UPDATE:
        parts = [action for action in parts if not action & Action.UPDATE] + [Action.UPDATE]
    names = (ClusterEvent(event.resource, action).label.removeprefix(str(event.resource)) for action in parts)
    return [f"{event.resource}/{name}" for name in names if name]
