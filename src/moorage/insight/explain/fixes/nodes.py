"""Nodes that reject the pod: taints, cordons, labels; and additional nodes."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.insight.explain.fixes.resources import format_amount
from moorage.insight.explain.spelling import find_intended, find_prefixed
from moorage.insight.explain.subject import LAST_RESORT, RELUCTANT, ProposedChange, Subject, fix
from moorage.insight.whatif.changes import UNSCHEDULABLE, cloned_node
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, remove_items
from moorage.insight.whatif.node_taints import SHUTDOWN, find_remover, find_starter, is_temporary
from moorage.kube.api.affinity import Taint
from moorage.kube.api.csi_migration import ZONE_DELIMITER
from moorage.kube.api.selectors import (
    EVERYTHING,
    NodeMatcher,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeTermMatcher,
    Requirement,
    node_matcher,
)
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.node_affinity import read_demands
from moorage.scheduler.plugins.node_declared_features import required_features
from moorage.scheduler.plugins.volume_zone import SUCCESSOR, TOPOLOGY_LABELS

HOSTNAME: Final = "kubernetes.io/hostname"
ROLES: Final = "node-role.kubernetes.io/"
MAX_SETS: Final = 12
"""Number of sets of taints or labels to try, the smallest first."""
MAX_SHAPES: Final = 12
MAX_OFFERS: Final = 2
PASSING: Final = frozenset(
    ("NodeResourcesFit", "NodeUnschedulable", "PodTopologySpread", "NodePorts", "NodeVolumeLimits", "InterPodAffinity")
)
"""Plugins that reject a node because of its state or its pods, although it is meant for pods like this one."""


@fix(limit=MAX_OFFERS)
def tolerate(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Tolerate the fewest taints of a node."""
    for taints, _ in _list_untolerated(subject, rows):
        draft = subject.live_draft()
        draft.append(("spec", "tolerations"), [_toleration(taint) for taint in taints])
        text = f"Tolerate {' and '.join(taint.text for taint in taints)}"
        # Pods should not tolerate taints of nodes that are out of order, cordoned, reserved, or about to be removed.
        should_not = any(taint.key.startswith(ROLES) or is_temporary(taint.key) for taint in taints)
        cost = LAST_RESORT if should_not else RELUCTANT * _is_for_others(subject, taints)
        yield ProposedChange("toleration", text, [draft.edit()], len(taints) + cost)


@fix()
def untaint(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the taints of the node with the fewest."""
    for taints, row in _list_untolerated(subject, rows):
        name = subject.nodes[row].name
        draft = subject.draft_object("Node", name)
        node_taints = draft.content.get("spec", {}).get("taints") or []
        parts = [(taint.key, taint.value, taint.effect) for taint in taints]
        indexes = [
            index
            for index, item in enumerate(node_taints)
            if (item.get("key", ""), item.get("value") or "", item.get("effect")) in parts
        ]
        draft.do(*remove_items(("spec", "taints"), indexes))
        # Role taints are removed in clusters without other nodes. Elsewhere, those nodes are reserved.
        keeps_role = any(taint.key.startswith(ROLES) and not _is_everywhere(subject, taint) for taint in taints)
        is_leaving = any(find_remover(taint.key) for taint in taints)
        cost = len(taints) + (LAST_RESORT if keeps_role or is_leaving else RELUCTANT * _is_for_others(subject, taints))
        yield ProposedChange("node-taint", _untaint_text(taints, name), [draft.edit()], cost)


def _is_for_others(subject: Subject, taints: Sequence[Taint]) -> bool:
    """Return whether taints reserve nodes for other pods: this pod could run on nodes without them."""
    keys = {taint.key for taint in taints}
    requests = subject.pod.requests
    matched = {taint.key for info in subject.nodes for taint in info.taints if subject.pod.tolerates(taint)}
    mistaken = {item.key for item in subject.pod.spec.tolerations} - matched
    if any(is_temporary(key) for key in keys) or keys & mistaken:
        return False
    if any(requests.get(key) for key in keys):
        return False
    return any(
        keys.isdisjoint(
            taint.key for taint in info.taints if not is_temporary(taint.key) and not subject.pod.tolerates(taint)
        )
        and not any(taint.key.startswith(ROLES) for taint in info.taints)
        and _is_meant_for_pod(subject, info)
        for info in subject.nodes
    )


def has_own_nodes(subject: Subject, plugin: str) -> bool:
    """Return whether a plugin accepts nodes that reject the pod only because of their state, pods or taints."""
    return any(
        plugin not in subject.obstacles.of(info.row) and _is_meant_for_pod(subject, info) for info in subject.nodes
    )


def _is_meant_for_pod(subject: Subject, node: NodeInfo) -> bool:
    is_passing = subject.obstacles.of(node.row).keys() <= PASSING | {"TaintToleration"}
    return is_passing and all(node.allocatable.get(name, 0) >= amount for name, amount in subject.pod.requests.items())


def _untaint_text(taints: Sequence[Taint], node: str) -> str:
    """Describe how a node loses its taints: some controllers set and remove their own ones."""
    names = " and ".join(taint.text for taint in taints)
    for taint in taints:
        if remover := find_remover(taint.key):
            return f"Remove the taint {names} from node {node}, which {remover} is about to remove"
        if taint.key == SHUTDOWN:
            return f"Remove the taint {names} from node {node} as soon as it works again"
        if starter := find_starter(taint.key):
            return f"Repair node {node}: {starter} then removes the taint {names}"
    return f"Remove the taint {names} from node {node}"


def _is_everywhere(subject: Subject, taint: Taint) -> bool:
    return all(taint in info.taints for info in subject.nodes)


def _list_untolerated(subject: Subject, rows: list[int]) -> list[tuple[tuple[Taint, ...], int]]:
    """List the sets of taints that the pod does not tolerate, each with a node; the smallest first."""
    rows_by_taints: dict[tuple[Taint, ...], int] = {}
    for row in rows:
        keeping = (taint for taint in subject.taints(subject.nodes[row]) if taint.repels_pods)
        taints = tuple(dict.fromkeys(taint for taint in keeping if not subject.pod.tolerates(taint)))
        if taints:
            rows_by_taints.setdefault(taints, row)
    return sorted(rows_by_taints.items(), key=lambda item: len(item[0]))[:MAX_SETS]


def _toleration(taint: Taint) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


@fix()
def uncordon(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Uncordon a node, and remove the taint of the cordon if the pod does not tolerate it."""
    tolerates = subject.pod.tolerates(Taint(UNSCHEDULABLE, "", "NoSchedule"))
    for row in rows[:MAX_SETS]:
        name = subject.nodes[row].name
        draft = subject.draft_object("Node", name)
        if not draft.content.get("spec", {}).get("unschedulable"):
            continue
        draft.remove("spec", "unschedulable")
        node_taints = () if tolerates else draft.content.get("spec", {}).get("taints") or ()
        indexes = [index for index, item in enumerate(node_taints) if item.get("key") == UNSCHEDULABLE]
        draft.do(*remove_items(("spec", "taints"), indexes))
        yield ProposedChange("cordon", f"Uncordon node {name}", [draft.edit()])


@fix()
def tolerate_cordon(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Tolerate the taint of cordoned nodes."""
    draft = subject.live_draft()
    toleration = {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}
    draft.append(("spec", "tolerations"), [toleration])
    text = f"Tolerate {UNSCHEDULABLE}:NoSchedule, so that the pod can run on cordoned nodes"
    yield ProposedChange("toleration", text, [draft.edit()], LAST_RESORT)


@fix()
def declare_features(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Declare the features that the pod needs on the node that lacks the fewest."""
    features = required_features(subject.pod)
    lacking = {row: features.difference(subject.nodes[row].node.status.declared_features) for row in rows}
    for row in sorted(rows, key=lambda row: len(lacking[row]))[:MAX_OFFERS]:
        name = subject.nodes[row].name
        draft = subject.draft_object("Node", name)
        declared = draft.content.get("status", {}).get("declaredFeatures") or []
        draft.put(("status", "declaredFeatures"), sorted({*declared, *lacking[row]}))
        text = f"Upgrade the kubelet of node {name}, so that it supports {' and '.join(sorted(lacking[row]))}"
        yield ProposedChange("node-feature", text, [draft.edit()])


@fix()
def label_node(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Change the fewest labels of a node, so that it meets the requirements of the pod and of the profile."""
    tried_labels: set[tuple[tuple[str, str | None], ...]] = set()
    changes = [(labels, row) for row in rows if (labels := _missing_labels(subject, subject.nodes[row])) is not None]
    for labels, row in sorted(changes, key=lambda item: len(item[0])):
        key = tuple(sorted(labels.items()))
        if not labels or key in tried_labels or len(tried_labels) > MAX_SETS:
            continue
        tried_labels.add(key)
        name = subject.nodes[row].name
        if any(is_reserved(label) for label in labels):
            continue  # the cloud provider and the kubelet own these labels
        is_for_runtime = not subject.runtime_labels.keys().isdisjoint(labels)
        reason = f", for the runtime class {subject.pod.spec.runtime_class_name}" if is_for_runtime else ""
        text = f"{_label_text(labels)} node {name}{reason}"
        cost = len(labels) + _labeling_cost(subject, labels)
        yield ProposedChange("node-label", text, [label_edit(subject, name, labels)], cost)


def _labeling_cost(subject: Subject, labels: Mapping[str, str | None]) -> int:
    """Return the cost of nodes with more labels: an operator corrects the pod, or enlarges the pool that it selects."""
    if _names_misspelt(subject, labels):
        return LAST_RESORT
    return RELUCTANT * has_own_nodes(subject, "NodeAffinity")


def _names_misspelt(subject: Subject, labels: Mapping[str, str | None]) -> bool:
    """Return whether a label that a node would get is probably a misspelling in the node selector."""
    return any(is_misspelt(subject, key, text or "") for key, text in labels.items())


def is_misspelt(subject: Subject, key: str, text: str) -> bool:
    """Return whether a required label is probably misspelt: its correction is better than a node that has it."""
    return bool(find_intended_key(subject, key, (text,)) or find_intended(text, subject.label_values(key)))


def find_intended_key(subject: Subject, key: str, values: Sequence[str]) -> str:
    """Return the correct label for a misspelled key. Nodes must have the values of this label."""
    if subject.label_values(key):
        return ""
    labels = {label for info in subject.nodes for label in info.labels}
    intended = find_intended(key, labels) or find_prefixed(key, labels if values else ())
    return intended if intended and set(values) <= set(subject.label_values(intended)) else ""


def is_reserved(label: str) -> bool:
    """Return whether the cloud provider or the kubelet owns a label, such as a zone or a host name.

    >>> is_reserved("topology.kubernetes.io/zone"), is_reserved("disk"), is_reserved("example.com/kubernetes.io")
    (True, False, False)
    """
    domain = label.rpartition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def label_edit(subject: Subject, name: str, labels: Mapping[str, str | None]) -> Edit:
    """Return an edit that changes labels of a node. ``None`` removes a label."""
    draft = subject.draft_object("Node", name)
    for key, text in labels.items():
        if text is None:
            draft.remove("metadata", "labels", key)
        else:
            draft.put(("metadata", "labels", key), text)
    return draft.edit()


def _label_text(labels: Mapping[str, str | None]) -> str:
    added_text = " and ".join(f"{key}={text}" for key, text in labels.items() if text is not None)
    removed_text = " and ".join(key for key, text in labels.items() if text is None)
    if added_text and removed_text:
        return f"Add the label {added_text} to, and remove {removed_text} from,"
    return f"Add the label {added_text} to" if added_text else f"Remove the label {removed_text} from"


def _missing_labels(subject: Subject, node: NodeInfo) -> dict[str, str | None] | None:
    """Return the label changes with which a node meets the pod's requirements, or ``None`` if labels cannot do it."""
    labels = _find_demanded(subject, node.labels, node.name)
    if labels is None:
        return None
    label_changes: dict[str, str | None] = {key: text for key, text in labels.items() if node.labels.get(key) != text}
    label_changes.update({key: None for key in node.labels if key not in labels})
    return None if HOSTNAME in label_changes and node.labels.get(HOSTNAME) == node.name else label_changes


def _find_demanded(
    subject: Subject, current_labels: Mapping[str, str], name: str, more: Iterable[NodeMatcher] = ()
) -> dict[str, str] | None:
    """Return the smallest change of labels that satisfies the pod and its profile, or ``None`` without one."""
    labels = dict(current_labels)
    demands = read_demands(subject.pod)
    _satisfy(labels, demands.labels.requirements if demands.labels is not EVERYTHING else ())
    affinities = [*([demands.affinity] if demands.affinity is not None else []), *more]
    profile = subject.session.find_runner(subject.pod).profile.config
    for entry in profile.plugin_config:
        added_affinity = getattr(entry.args, "added_affinity", None)
        if added_affinity is not None and added_affinity.required is not None:
            affinities.append(node_matcher(added_affinity.required))
    for affinity in affinities:
        candidates = [
            candidate for term in affinity.terms if (candidate := _satisfy_term(labels, term, name)) is not None
        ]
        if not candidates:
            return None
        labels = min(candidates, key=lambda candidate: len(candidate.items() ^ labels.items()))
    return labels


def _satisfy_term(labels: Mapping[str, str], term: NodeTermMatcher, name: str) -> dict[str, str] | None:
    new_labels = dict(labels)
    if term.matches_nothing or any(not field.accepts(name) for field in term.fields):
        return None
    _satisfy(new_labels, term.expressions)
    return new_labels if all(item.matches(new_labels) for item in term.expressions) else None


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


@fix()
def add_node(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Add a copy of the smallest node that fits. Without nodes, add one of the size of the pod."""
    if subject.only_node:
        return
    node_shapes = shapes(subject)
    for info in node_shapes[:MAX_SHAPES]:
        number = 1
        while ObjectId("Node", "", f"{info.name}-new-{number}") in subject.session.objects:
            number += 1
        node, *related = clone_node(subject, info.name, f"{info.name}-new-{number}")
        yield ProposedChange("add-node", f"Add a node like {info.name}", _needed_edits(subject, node, related))
    for info in node_shapes[:MAX_SHAPES]:
        if (proposal := _labeled_clone(subject, info)) is not None:
            yield proposal
    for info in node_shapes[:MAX_SHAPES]:
        yield from _clone_elsewhere(subject, info)
    if not node_shapes and (new_node := _node_for_pod(subject)) is not None:
        yield ProposedChange("add-node", "Add a node: the cluster has none", [CreateObject(new_node)])


def _clone_elsewhere(subject: Subject, info: NodeInfo) -> Iterator[ProposedChange]:
    """Propose a copy of a node in another zone or rack: a new one for anti-affinity, an existing one for a spread."""
    spec = subject.pod.spec
    terms = spec.affinity.pod_anti_affinity.required if spec.affinity and spec.affinity.pod_anti_affinity else ()
    hard = (item for item in spec.topology_spread_constraints if item.when_unsatisfiable == "DoNotSchedule")
    wishes = [(term.topology_key, f"{info.labels.get(term.topology_key)}-new", False) for term in terms]
    wishes += [(item.topology_key, text, True) for item in hard for text in subject.label_values(item.topology_key)]
    for key, text, exists in dict.fromkeys(wishes):
        if key == HOSTNAME or info.labels.get(key, text) == text:
            continue
        node, *related = clone_node(subject, info.name, f"{info.name}-new-1")
        assert isinstance(node, CreateObject)
        node.content["metadata"]["labels"][key] = text
        label = f"{key}={text}" if exists else f"another value of {key}"
        yield ProposedChange("add-node", f"Add a node like {info.name} with {label}", [node, *related], 1)


def _needed_edits(subject: Subject, node: Edit, related: Sequence[Edit]) -> list[Edit]:
    """Omit the CSI drivers and devices of a new node that do not matter to the pod."""
    needed_edits = list(related)
    is_limited = any("NodeVolumeLimits" in subject.obstacles.of(info.row) for info in subject.nodes)
    for edit in related:
        # After a volume limit, schedulers retry the pod when a CSINode is added, not when a node is.
        if is_limited and isinstance(edit, CreateObject) and edit.content["kind"] == "CSINode":
            continue
        fewer = [candidate for candidate in needed_edits if candidate is not edit]
        if subject.trial(node, *fewer):
            needed_edits = fewer
    return [node, *needed_edits]


def _labeled_clone(subject: Subject, info: NodeInfo) -> ProposedChange | None:
    """Propose a copy of a node with the labels that the pod and its bound volumes require."""
    volumes = list(_bound_volumes(subject))
    required = [volume.spec.node_affinity.required for volume in volumes if volume.spec.node_affinity is not None]
    matchers = [node_matcher(selector) for selector in required if selector is not None]
    matchers += [node_matcher(selector) for volume in volumes if (selector := _zone_selector(volume)) is not None]
    hosts = [
        value
        for matcher in matchers
        for term in matcher.terms
        for item in term.expressions
        if item.key == HOSTNAME and item.operator == "In"
        for value in item.values
    ]
    name = next((host for host in hosts if subject.nodes.find(host) is None), f"{info.name}-new-1")
    node, *related = clone_node(subject, info.name, name)
    assert isinstance(node, CreateObject)
    own = node.content["metadata"].get("labels") or {}
    labels = _find_demanded(subject, own, name, matchers)
    label_changes = {key: text for key, text in (labels or {}).items() if own.get(key) != text}
    if labels is None or HOSTNAME in label_changes or (not label_changes and name not in hosts):
        return None
    node = CreateObject({**node.content, "metadata": {"name": name, "labels": labels}})
    text = f"Add node {name}" if name in hosts else f"Add a node like {info.name}"
    text += f" with {' and '.join(f'{key}={text}' for key, text in label_changes.items())}" if label_changes else ""
    reason = "".join(f", for the volume {volume.name}" for volume in volumes[:1] if matchers)
    cost = _labeling_cost(subject, label_changes)
    return ProposedChange("add-node", f"{text}{reason}", _needed_edits(subject, node, related), cost)


def _zone_selector(volume: PersistentVolume) -> NodeSelector | None:
    """Return the zones and regions in the labels of a volume as a selector of nodes."""
    expressions = tuple(
        NodeSelectorRequirement(SUCCESSOR.get(key, key), "In", tuple(text.split(ZONE_DELIMITER)))
        for key, text in volume.labels.items()
        if key in TOPOLOGY_LABELS
    )
    return NodeSelector((NodeSelectorTerm(expressions),)) if expressions else None


def _bound_volumes(subject: Subject) -> Iterator[PersistentVolume]:
    objects = subject.session.scheduler.objects
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        claim = objects[PersistentVolumeClaim].get(source.claim_name, subject.pod.namespace) if source else None
        bound = objects[PersistentVolume].find(claim.spec.volume_name) if claim is not None else None
        if bound is not None:
            yield bound


def shapes(subject: Subject) -> list[NodeInfo]:
    """Return one node of every shape, the smallest first."""
    by_shape: dict[tuple[Any, ...], NodeInfo] = {}
    for info in subject.nodes:
        labels = frozenset((key, text) for key, text in info.labels.items() if text != info.name)
        by_shape.setdefault((frozenset(info.allocatable.items()), labels, info.taints), info)
    return sorted(
        by_shape.values(), key=lambda info: (info.allocatable.get("cpu", 0), info.allocatable.get("memory", 0))
    )


def clone_node(subject: Subject, like: str, name: str) -> list[Edit]:
    """Return edits that create a copy of a node, with its CSI drivers and devices."""
    objects = subject.session.objects
    edits: list[Edit] = [CreateObject(cloned_node(objects.content(ObjectId("Node", "", like)), name))]
    if subject.pod.spec.volumes and ObjectId("CSINode", "", like) in objects:
        csi = objects.content(ObjectId("CSINode", "", like))
        edits.append(CreateObject({**_add_header(csi, name), "spec": copy.deepcopy(csi.get("spec", {}))}))
    if subject.pod.spec.resource_claims or any("/" in resource for resource in subject.pod.requests):
        for slice_id in objects.known("ResourceSlice"):
            content = objects.content(slice_id)
            spec = content.get("spec") or {}
            if spec.get("nodeName") == like:
                pool = {**spec.get("pool", {}), "name": f"{(spec.get('pool') or {}).get('name', '')}-{name}"}
                head = _add_header(content, f"{slice_id.name}-{name}")
                edits.append(CreateObject({**head, "spec": {**copy.deepcopy(spec), "nodeName": name, "pool": pool}}))
    return edits


def _add_header(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": {"name": name}}


def _node_for_pod(subject: Subject) -> dict[str, Any] | None:
    """Return a node of the size of the pod, with a name and labels that it accepts, or ``None`` if there is none."""
    requests = {name: format_amount(name, amount) for name, amount in subject.pod.requests.items() if amount}
    affinity = read_demands(subject.pod).affinity
    fields = [field for term in (affinity.terms if affinity is not None else ()) for field in term.fields]
    for name in ("node-1", *sorted({name for field in fields for name in field.values if field.accepts(name)})):
        own = dict.fromkeys((HOSTNAME, *topology_keys(subject)), name)
        labels = _find_demanded(subject, own, name)
        if labels is not None:
            return {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {**requests, "pods": "110"}, "capacity": {**requests, "pods": "110"}},
            }
    return None


def topology_keys(subject: Subject) -> list[str]:
    """List the topology labels that the pod refers to."""
    spec = subject.pod.spec
    keys = dict.fromkeys(item.topology_key for item in spec.topology_spread_constraints)
    if spec.affinity is not None and spec.affinity.pod_affinity is not None:
        keys.update(dict.fromkeys(term.topology_key for term in spec.affinity.pod_affinity.required))
    return list(keys)
