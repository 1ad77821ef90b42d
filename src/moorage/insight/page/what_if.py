"""Try changes on a copy of the cluster: add pods, drain nodes, change weights; and report the pods that move.

Nothing is written to a cluster: all changes happen in a branch of a session, and are undone.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.common.errors import InputError, describe_decode_error, did_you_mean
from moorage.insight.explain.groups import list_active_pods
from moorage.insight.page.node_columns import compute_load
from moorage.insight.whatif.changes import evicted, is_bound_to_node
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject, decode_edit, put
from moorage.insight.whatif.objects import missing
from moorage.insight.whatif.questions import template_pods
from moorage.insight.whatif.session import Session
from moorage.kube.api.documents import read_documents
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import to_documents
from moorage.scheduler.config import completed_view
from moorage.scheduler.wiring.policy import load_policy

TRY_SECONDS: Final = 10.0
MAX_DROPPED: Final = 500
MAX_WEIGHT: Final = 2**31 - 1


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The changes to simulate: manifests to add, copies of each, nodes to drain, weights, and other edits."""

    drop: str = ""
    copies: int = 1
    drain: tuple[str, ...] = ()
    weights: dict[str, dict[str, int]] = {}
    edits: list[dict[str, Any]] = []


class Moved(msgspec.Struct, frozen=True):
    """A pod that would move. An empty node means pending."""

    pod: str
    before: str
    after: str
    text: str = ""


def try_changes(session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Apply the changes, place all pending pods, and return the differences. The session is restored."""
    wish = _parse_wish(arguments)
    deadline = monotonic() + TRY_SECONDS
    pending = [pod for pod in list_active_pods(session) if not pod.node_name and _is_ours(session, pod)]
    pending_keys = [pod.key for pod in sorted(pending, key=lambda pod: -pod.priority)]
    with session.branch():
        before, untried = _place_in_order(session, pending_keys, deadline)
        before_load = compute_load(session.scheduler.cache.nodes)
    with _open_changed(session, wish) as changed_session, changed_session.branch():
        changed_session.apply(*(decode_edit(edit) for edit in wish.edits))
        drained: dict[str, str] = {}
        for name in wish.drain:
            drained |= _drain(changed_session, name)
        added_pods = _add_pods(changed_session, wish)
        after, left_after = _place_in_order(
            changed_session, [*pending_keys, *drained, *added_pods], deadline + TRY_SECONDS
        )
        load = compute_load(changed_session.scheduler.cache.nodes)
        names = list(changed_session.scheduler.cache.nodes.names)
    moves = [
        Moved(pod, before[pod][0], *after[pod])
        for pod in pending_keys
        if pod in before and pod in after and before[pod][0] != after[pod][0]
    ]
    moves += [Moved(pod, node, *after.get(pod, ("", "not tried"))) for pod, node in drained.items()]
    if wish.weights:
        moves += _find_moved(session, wish, monotonic() + TRY_SECONDS)
    return {
        "moves": moves,
        "dropped": [Moved(pod, "", *after.get(pod, ("", "not tried"))) for pod in added_pods],
        "waitingBefore": sum(1 for node, _ in before.values() if not node),
        "waitingAfter": sum(1 for node, _ in after.values() if not node),
        "notTried": max(untried, left_after),
        "names": names,
        "load": load,
        "loadBefore": before_load,
    }


def _parse_wish(arguments: Mapping[str, Any]) -> Wish:
    fields = {key: item for key, item in arguments.items() if key not in ("run", "at")}
    try:
        wish = msgspec.convert(fields, Wish)
    except msgspec.ValidationError as error:
        hint = "keys: drop (manifests as text), copies, drain (names of nodes), weights ({profile: {plugin: 5}}), edits"
        raise InputError("request", describe_decode_error(error), hint=hint) from error
    if not 0 < wish.copies <= MAX_DROPPED:
        raise InputError("copies", f"{wish.copies} is not a number from 1 to {MAX_DROPPED}")
    if not (wish.drop or wish.drain or wish.weights or wish.edits):
        raise InputError("request", "no changes to simulate", hint="add a pod, drain a node, or change a weight")
    return wish


def _is_ours(session: Session, pod: Pod) -> bool:
    return pod.scheduler_name in session.scheduler.runners


Outcomes = dict[str, tuple[str, str]]
"""The node and the message of each pod."""


def _place_in_order(session: Session, pods: list[str], deadline: float) -> tuple[Outcomes, int]:
    """Place pods one after the other while there is time. Return their nodes, and how many were not tried."""
    outcomes: Outcomes = {}
    for number, key in enumerate(pods):
        if monotonic() > deadline:
            return outcomes, len(pods) - number
        mark = session.mark()
        attempt = session.place(key, preempts=False)
        gate_message = "; ".join(status.message for status in attempt.gates)
        if gate_message:
            session.roll_back(mark)  # a gated pod was tried, too, but must not use resources
        outcomes[key] = (attempt.node, gate_message or attempt.decision.message)
    return outcomes, 0


def _drain(session: Session, name: str) -> dict[str, str]:
    """Cordon a node and evict its pods, except pods that disappear with the node. Return them with the node."""
    target = ObjectId("Node", "", name)
    info = session.scheduler.cache.node(name)
    if info is None:
        raise missing(target, session.scheduler.cache.nodes.names)
    drained: dict[str, str] = {}
    for pod in list(info.pods.values()):
        pod_id = ObjectId("Pod", pod.namespace, pod.name)
        if pod_id not in session.objects or not _is_ours(session, pod):
            continue
        content = session.objects.content(pod_id)
        if not is_bound_to_node(content):
            session.apply(DeleteObject(pod_id), CreateObject(evicted(content)))
            drained[pod.key] = name
    cordon = put(session.objects.content(target), ("spec", "unschedulable"), True)
    session.apply(PatchObject(target, (cordon,)))
    return drained


def _add_pods(session: Session, wish: Wish) -> list[str]:
    """Add pods, or one pod of each workload, as many copies as requested. Add other objects once."""
    pod_keys: list[str] = []
    if not wish.drop.strip():
        return pod_keys
    for document in to_documents(read_documents(wish.drop, source="added pods"), source="added pods"):
        spec = document.content.get("spec")
        if document.kind != "Pod" and not (isinstance(spec, dict) and ("template" in spec or "jobTemplate" in spec)):
            session.apply(CreateObject(document.content))
            continue
        [pod] = template_pods([document], source=document.title)
        for number in range(1, wish.copies + 1):
            metadata = {key: item for key, item in (pod.get("metadata") or {}).items() if key != "uid"}
            name = str(metadata.get("name") or metadata.pop("generateName", "pod-").rstrip("-"))
            metadata["name"] = name if wish.copies == 1 else f"{name}-{number}"
            while ObjectId.of({"kind": "Pod", "metadata": metadata}) in session.objects:
                metadata["name"] += "-copy"
            content = {**pod, "metadata": metadata}
            session.apply(CreateObject(content))
            pod_keys.append(ObjectId.of(content).key)
    if not pod_keys:
        raise InputError("added pods", "contains no Pod or workload")
    return pod_keys


@contextmanager
def _open_changed(session: Session, wish: Wish) -> Iterator[Session]:
    """Return the session itself, or one on the same objects under other weights."""
    if not wish.weights:
        yield session
        return
    policy_before, view = session.given_policy, completed_view(session.given_policy.config)
    for name, weights in wish.weights.items():
        profile = next((item for item in view["profiles"] if item["schedulerName"] == name), None)
        if profile is None:
            profiles = [item["schedulerName"] for item in view["profiles"]]
            raise InputError("weights", f"unknown profile {name!r}", hint=did_you_mean(name, profiles))
        for plugin, weight in weights.items():
            _set_weight(profile, plugin, weight)
    policy = load_policy(policy_before.registry, msgspec.json.encode(view).decode(), features=policy_before.features)
    documents = to_documents(session.objects.contents(), source="the cluster")
    with Session(documents, policy, honors_nominations=session.honors_nominations) as changed_session:
        yield changed_session


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    if not 0 < weight <= MAX_WEIGHT:
        hint = f"use a number from 1 to {MAX_WEIGHT}"
        raise InputError(f"the weight of {plugin}", f"{weight} is not a weight", hint=hint)
    entries = [
        entry
        for point in ("multiPoint", "score")
        for entry in (profile["plugins"].get(point) or {}).get("enabled") or ()
        if entry["name"] == plugin
    ]
    if not entries:
        raise InputError("weights", f"the profile {profile['schedulerName']} has no plugin {plugin!r}")
    for entry in entries:
        entry["weight"] = weight


def _find_moved(session: Session, wish: Wish, deadline: float) -> list[Moved]:
    """Find pods that would move if they were rescheduled, one by one, under the new weights."""

    def find_node(session: Session, pod: Pod) -> str:
        with session.branch():
            return session.try_pod(session.unplace(pod), preempts=False).node

    moved_pods: list[Moved] = []
    with _open_changed(session, replace(wish, drop="", drain=(), edits=[])) as changed_session:
        for pod in list_active_pods(session):
            if monotonic() > deadline:
                break
            if pod.node_name and _is_ours(session, pod):
                before, after = find_node(session, pod), find_node(changed_session, pod)
                if before and after and before != after:
                    moved_pods.append(Moved(pod.key, before, after, "if it were scheduled again"))
    return moved_pods
