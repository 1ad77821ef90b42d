"""Nodes that do not take the pod: taints, cordons, labels; and nodes that are not there yet."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moorage.insight.explain.subject import Remedy, Subject
from moorage.insight.whatif.changes import UNSCHEDULABLE, cloned_node
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, remove_items
from moorage.kube.api.affinity import Taint
from moorage.kube.api.selectors import EVERYTHING, NodeTermMatcher, Requirement, node_matcher
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.node_affinity import read_demands
from moorage.scheduler.plugins.node_declared_features import required_features

HOSTNAME: Final = "kubernetes.io/hostname"
MAX_SETS: Final = 12
"""Number of sets of taints or labels to try, the smallest first."""
MAX_SHAPES: Final = 12
MAX_OFFERS: Final = 2


def tolerate(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Tolerate the fewest taints of a node."""
    count = 0
    for taints, _ in _untolerated(subject, rows):
        draft = subject.live_draft()
        draft.append(("spec", "tolerations"), [_toleration(taint) for taint in taints])
        text = f"Tolerate {_listed(taint.text for taint in taints)}"
        if offer := subject.offer("toleration", text, draft.edit(), cost=len(taints)):
            yield offer
            count += 1
            if count == MAX_OFFERS:
                return


def untaint(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Take the taints off a node: one with as few as there are."""
    for taints, row in _untolerated(subject, rows):
        name = subject.nodes[row].name
        draft = subject.draft_of("Node", name)
        node_taints = draft.content.get("spec", {}).get("taints") or []
        indexes = [index for index, item in enumerate(node_taints) if _is_one_of(item, taints)]
        draft.do(*remove_items(("spec", "taints"), indexes))
        text = f"Remove the taint {_listed(taint.text for taint in taints)} from node {name}"
        if offer := subject.offer("node-taint", text, draft.edit(), cost=len(taints)):
            yield offer
            return


def _untolerated(subject: Subject, rows: list[int]) -> list[tuple[tuple[Taint, ...], int]]:
    """List the sets of taints that keep the pod off, each with a node that has no others; the smallest first."""
    rows_by_taints: dict[tuple[Taint, ...], int] = {}
    for row in rows:
        keeping = (taint for taint in subject.nodes[row].taints if taint.keeps_pods_off)
        taints = tuple(dict.fromkeys(taint for taint in keeping if not subject.pod.tolerates(taint)))
        if taints:
            rows_by_taints.setdefault(taints, row)
    return sorted(rows_by_taints.items(), key=lambda item: len(item[0]))[:MAX_SETS]


def _toleration(taint: Taint) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def _is_one_of(item: Mapping[str, Any], taints: Iterable[Taint]) -> bool:
    return any((item.get("key", ""), item.get("value") or "", item.get("effect")) == tuple(_parts(t)) for t in taints)


def _parts(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words)


def uncordon(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Let a cordoned node take pods again."""
    for row in rows[:MAX_SETS]:
        name = subject.nodes[row].name
        draft = subject.draft_of("Node", name)
        if not draft.content.get("spec", {}).get("unschedulable"):
            continue
        draft.remove("spec", "unschedulable")
        node_taints = draft.content.get("spec", {}).get("taints") or []
        draft.do(*remove_items(("spec", "taints"), _cordon_taints(node_taints, subject)))
        if offer := subject.offer("cordon", f"Uncordon node {name}", draft.edit()):
            yield offer
            return


def _cordon_taints(node_taints: list[Mapping[str, Any]], subject: Subject) -> list[int]:
    """Find the taint that goes with a cordon, if the pod minds it."""
    taint = Taint(UNSCHEDULABLE, "", "NoSchedule")
    if subject.pod.tolerates(taint):
        return []
    return [index for index, item in enumerate(node_taints) if item.get("key") == UNSCHEDULABLE]


def tolerate_cordon(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Tolerate the taint of cordoned nodes."""
    draft = subject.live_draft()
    toleration = {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}
    draft.append(("spec", "tolerations"), [toleration])
    text = f"Tolerate {UNSCHEDULABLE}:NoSchedule, so that the pod can run on cordoned nodes"
    if offer := subject.offer("toleration", text, draft.edit(), cost=2):
        yield offer


def declare_features(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Have a node declare the features that the pod needs: one that lacks the fewest."""
    features = required_features(subject.pod)
    lacking = {row: features.difference(subject.nodes[row].node.status.declared_features) for row in rows}
    for row in sorted(rows, key=lambda row: len(lacking[row]))[:MAX_OFFERS]:
        name = subject.nodes[row].name
        draft = subject.draft_of("Node", name)
        declared = draft.content.get("status", {}).get("declaredFeatures") or []
        draft.put(("status", "declaredFeatures"), sorted({*declared, *lacking[row]}))
        text = f"Upgrade the kubelet of node {name}, so that it supports {_listed(sorted(lacking[row]))}"
        if offer := subject.offer("node-feature", text, draft.edit()):
            yield offer
            return


def label_node(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Give a node the labels that the pod or the profile demands: the fewest."""
    tried_labels: set[tuple[tuple[str, str | None], ...]] = set()
    changes = [(labels, row) for row in rows if (labels := _missing_labels(subject, subject.nodes[row])) is not None]
    for labels, row in sorted(changes, key=lambda item: len(item[0])):
        key = tuple(sorted(labels.items()))
        if not labels or key in tried_labels or len(tried_labels) > MAX_SETS:
            continue
        tried_labels.add(key)
        name = subject.nodes[row].name
        edit = label_edit(subject, name, labels)
        text = f"{_label_text(labels)} node {name}"
        if offer := subject.offer("node-label", text, edit, cost=len(labels)):
            yield offer
            return


def label_edit(subject: Subject, name: str, labels: Mapping[str, str | None]) -> Edit:
    """Change labels of a node; ``None`` takes one off."""
    draft = subject.draft_of("Node", name)
    for key, text in labels.items():
        if text is None:
            draft.remove("metadata", "labels", key)
        else:
            draft.put(("metadata", "labels", key), text)
    return draft.edit()


def _label_text(labels: Mapping[str, str | None]) -> str:
    added = [f"{key}={text}" for key, text in labels.items() if text is not None]
    removed = [key for key, text in labels.items() if text is None]
    parts = ([f"the label {_listed(added)} to"] if added else []) + (
        [f"the label {_listed(removed)} from"] if removed else []
    )
    if added and removed:
        return f"Add the label {_listed(added)} to, and remove {_listed(removed)} from,"
    return f"Add {parts[0]}" if added else f"Remove {parts[0]}"


def _missing_labels(subject: Subject, node: NodeInfo) -> dict[str, str | None] | None:
    """Work out which labels would make a node what the pod demands; ``None`` if labels cannot."""
    labels = _demanded(subject, node.labels, node.name)
    if labels is None:
        return None
    changed: dict[str, str | None] = {key: text for key, text in labels.items() if node.labels.get(key) != text}
    changed.update({key: None for key in node.labels if key not in labels})
    return None if HOSTNAME in changed and node.labels.get(HOSTNAME) == node.name else changed


def _demanded(subject: Subject, current_labels: Mapping[str, str], name: str) -> dict[str, str] | None:
    """Return the smallest change of labels that satisfies the pod and its profile; ``None`` without such a change."""
    labels = dict(current_labels)
    demands = read_demands(subject.pod)
    _satisfy(labels, demands.labels.requirements if demands.labels is not EVERYTHING else ())
    affinities = [demands.affinity] if demands.affinity is not None else []
    profile = subject.session.find_runner(subject.pod).profile.config
    for entry in profile.plugin_config:
        added = getattr(entry.args, "added_affinity", None)
        if added is not None and added.required is not None:
            affinities.append(node_matcher(added.required))
    for affinity in affinities:
        ways = [way for term in affinity.terms if (way := _satisfied(labels, term, name)) is not None]
        if not ways:
            return None
        labels = min(ways, key=lambda way: len(way.items() ^ labels.items()))
    return labels


def _satisfied(labels: Mapping[str, str], term: NodeTermMatcher, name: str) -> dict[str, str] | None:
    changed = dict(labels)
    if term.matches_nothing or any(not field.accepts(name) for field in term.fields):
        return None
    _satisfy(changed, term.expressions)
    return changed if all(item.matches(changed) for item in term.expressions) else None


def _satisfy(labels: dict[str, str], requirements: Iterable[Requirement]) -> None:
    for item in requirements:
        if item.matches(labels):
            continue
        match item.operator:
            case "In":
                labels[item.key] = min(item.values)
            case "Exists":
                labels[item.key] = "true"
            case "Gt":
                labels[item.key] = str(item.bound + 1)
            case "Lt":
                labels[item.key] = str(item.bound - 1)
            case _:
                labels.pop(item.key, None)


def add_node(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Add a copy of the smallest node that fits; without nodes, add one of the size of the pod."""
    if subject.only_node:
        return
    node_shapes = shapes(subject)
    for info in node_shapes[:MAX_SHAPES]:
        node, *beside = clone_node(subject, info.name, free_name(subject, info.name))
        extra_edits = _needed(subject, node, beside)
        if offer := subject.offer("add-node", f"Add a node like {info.name}", node, *extra_edits):
            yield offer
            return
    new_node = _made_to_measure(subject) if not node_shapes else None
    if new_node is not None and (
        offer := subject.offer("add-node", "Add a node: the cluster has none", CreateObject(new_node))
    ):
        yield offer


def shapes(subject: Subject) -> list[NodeInfo]:
    """Return a node of every shape that there is, the smallest first."""
    by_shape: dict[tuple[Any, ...], NodeInfo] = {}
    for info in subject.nodes:
        by_shape.setdefault(_shape(info), info)
    return sorted(
        by_shape.values(), key=lambda info: (info.allocatable.get("cpu", 0), info.allocatable.get("memory", 0))
    )


def _needed(subject: Subject, node: Edit, beside: list[Edit]) -> list[Edit]:
    """Leave out what comes with a node and does not matter to the pod."""
    remaining = list(beside)
    for edit in beside:
        fewer = [candidate for candidate in remaining if candidate is not edit]
        if subject.trial(node, *fewer):
            remaining = fewer
    return remaining


def _shape(info: NodeInfo) -> tuple[Any, ...]:
    labels = frozenset((key, text) for key, text in info.labels.items() if text != info.name)
    return frozenset(info.allocatable.items()), labels, info.taints


def free_name(subject: Subject, like: str) -> str:
    """Find a name that no node has."""
    number = 1
    while ObjectId("Node", "", f"{like}-new-{number}") in subject.session.objects:
        number += 1
    return f"{like}-new-{number}"


def clone_node(subject: Subject, like: str, name: str) -> list[Edit]:
    """Describe a new node like another one, with the CSI drivers and devices that come with such a node."""
    objects = subject.session.objects
    edits: list[Edit] = [CreateObject(cloned_node(objects.content(ObjectId("Node", "", like)), name))]
    if subject.pod.spec.volumes and ObjectId("CSINode", "", like) in objects:
        csi = objects.content(ObjectId("CSINode", "", like))
        edits.append(CreateObject({**_headed(csi, name), "spec": copy.deepcopy(csi.get("spec", {}))}))
    if subject.pod.spec.resource_claims or any("/" in resource for resource in subject.pod.requests):
        for slice_id in objects.known("ResourceSlice"):
            content = objects.content(slice_id)
            spec = content.get("spec") or {}
            if spec.get("nodeName") == like:
                pool = {**spec.get("pool", {}), "name": f"{(spec.get('pool') or {}).get('name', '')}-{name}"}
                head = _headed(content, f"{slice_id.name}-{name}")
                edits.append(CreateObject({**head, "spec": {**copy.deepcopy(spec), "nodeName": name, "pool": pool}}))
    return edits


def _headed(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": {"name": name}}


def _made_to_measure(subject: Subject) -> dict[str, Any] | None:
    from moorage.insight.explain.fixes.resources import written

    requests = {name: written(name, amount) for name, amount in subject.pod.requests.items() if amount}
    for name in ("node-1", *_names_asked_for(subject)):
        own = dict.fromkeys((HOSTNAME, *topology_keys(subject)), name)
        labels = _demanded(subject, own, name)
        if labels is not None:
            return {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {**requests, "pods": "110"}, "capacity": {**requests, "pods": "110"}},
            }
    return None


def _names_asked_for(subject: Subject) -> list[str]:
    """List the names of nodes that the pod requires."""
    affinity = read_demands(subject.pod).affinity
    fields = [field for term in (affinity.terms if affinity is not None else ()) for field in term.fields]
    return sorted({name for field in fields for name in field.values if field.accepts(name)})


def topology_keys(subject: Subject) -> list[str]:
    """List the topology labels that the pod refers to."""
    spec = subject.pod.spec
    keys = dict.fromkeys(item.topology_key for item in spec.topology_spread_constraints)
    if spec.affinity is not None and spec.affinity.pod_affinity is not None:
        keys.update(dict.fromkeys(term.topology_key for term in spec.affinity.pod_affinity.required))
    return list(keys)
