"""Fixes for conflicts with other pods: pod affinity, host ports, topology spread."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.insight.explain.fixes.nodes import has_own_nodes, is_reserved, label_edit, topology_keys
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import LAST_RESORT, RELUCTANT, ProposedChange, Subject, fix
from moorage.insight.whatif.edits import Edit, remove_items
from moorage.kube.api.codec import convert
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import HostPort
from moorage.kube.api.selectors import LabelSelector, label_matcher
from moorage.scheduler.framework.nodeinfo import ports_conflict

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = ("spec", "affinity", "podAffinity", REQUIRED)
CONSTRAINTS: Final = ("spec", "topologySpreadConstraints")
MAX_WEIGHT: Final = 100
MAX_SETS: Final = 12
MAX_SKEW: Final = 2**31 - 1
_SEPARATORS: Final = re.compile(r"[-_.]")


@fix()
def correct_terms(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Correct a label of required pod affinity that is probably misspelt, or its namespace."""
    affinity = subject.content.get("spec", {}).get("affinity") or {}
    for number, term in enumerate((affinity.get("podAffinity") or {}).get(REQUIRED) or ()):
        path = ("spec", "affinity", "podAffinity", REQUIRED, number)
        selector = term.get("labelSelector") or {}
        namespaces = set(term.get("namespaces") or [subject.pod.namespace])
        placed_pods = [pod for info in subject.nodes for pod in info.pods.values()]
        for key, text in (selector.get("matchLabels") or {}).items():
            near = [pod for pod in (*placed_pods, subject.pod) if pod.namespace in namespaces and key in pod.labels]
            values = sorted({pod.labels[key] for pod in near})
            if intended := find_intended(text, values):
                edit = subject.draft().put((*path, "labelSelector", "matchLabels", key), intended).edit()
                description = f"Change {key} in its required pod affinity from {text} to {intended}"
                yield ProposedChange("affinity", description, [edit], -1)
            # A longer name of the same thing: redis and redis-master.
            longer = [value for value in values if text in _SEPARATORS.split(value)]
            if text not in values and len(longer) == 1:
                edit = subject.draft().put((*path, "labelSelector", "matchLabels", key), longer[0]).edit()
                description = f"Change {key} in its required pod affinity from {text}, which no pod has, to {longer[0]}"
                yield ProposedChange("affinity", description, [edit])
        matcher = label_matcher(convert(LabelSelector, selector))
        matching = {pod.namespace for pod in placed_pods if matcher.matches(pod.labels)}
        yield from _correct_namespaces(subject, path, (term.get("namespaceSelector") or {}).get("matchLabels") or {})
        if matching and not matching & namespaces:
            namespace, draft = min(matching), subject.draft()
            if "namespaceSelector" in term:
                draft.remove(*path, "namespaceSelector")
            edit = draft.put((*path, "namespaces"), [namespace]).edit()
            description = f"Set the namespace of its required pod affinity {_term_text(term)} to {namespace}"
            yield ProposedChange("affinity", description, [edit], -1)


def _correct_namespaces(
    subject: Subject, path: tuple[str | int, ...], selected: dict[str, str]
) -> Iterator[ProposedChange]:
    """Correct a label of the namespaces of a required pod affinity that is probably misspelt."""
    objects = subject.session.objects
    labels = [objects.content(item)["metadata"].get("labels") or {} for item in objects.known("Namespace")]
    for key, text in selected.items():
        if intended := find_intended(text, sorted({item[key] for item in labels if key in item})):
            edit = subject.draft().put((*path, "namespaceSelector", "matchLabels", key), intended).edit()
            description = f"Change {key} of the namespaces of its required pod affinity from {text} to {intended}"
            yield ProposedChange("affinity", description, [edit], -1)


@fix()
def correct_topology_keys(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Correct topology keys that no node has, and that are probably misspelt, in affinity terms and constraints."""
    spec = subject.content.get("spec", {})
    affinity = (spec.get("affinity") or {}).get("podAffinity") or {}
    labels = {label for info in subject.nodes for label in info.labels}
    constraints = spec.get("topologySpreadConstraints") or ()
    draft, texts = subject.draft(), list[str]()
    for path, items in ((TERMS, affinity.get(REQUIRED) or ()), (CONSTRAINTS, constraints)):
        for at, item in enumerate(items):
            key = str(item.get("topologyKey"))
            if item.get("whenUnsatisfiable", HARD) == HARD and (intended := find_intended(key, labels)):
                draft.put((*path, at, "topologyKey"), intended)
                location = "its required pod affinity" if path == TERMS else "its topology spread"
                texts.append(f"the topology key {key} of {location} to {intended}")
    if texts:
        yield ProposedChange("affinity", f"Change {' and '.join(texts)}: no node has this label", [draft.edit()], -1)


@fix()
def prefer_terms(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Turn the fewest required terms of pod affinity and anti-affinity into preferences."""
    affinity = subject.content.get("spec", {}).get("affinity") or {}
    terms = [
        (field, number)
        for field in ("podAffinity", "podAntiAffinity")
        for number, _ in enumerate((affinity.get(field) or {}).get(REQUIRED) or ())
    ]

    def make_edits(selected: Sequence[tuple[str, int]]) -> list[Edit]:
        draft = subject.draft()
        for field, number in selected:
            preference = {"weight": MAX_WEIGHT, "podAffinityTerm": affinity[field][REQUIRED][number]}
            draft.append(("spec", "affinity", field, PREFERRED), [preference])
        for field in ("podAffinity", "podAntiAffinity"):
            numbers = [number for name, number in selected if name == field]
            draft.do(*remove_items(("spec", "affinity", field, REQUIRED), numbers))
        return [draft.edit()]

    selected = subject.fewest(terms, make_edits)
    if selected is not None:
        words = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}
        terms_text = " and ".join(
            f"{words[field]} {_term_text(affinity[field][REQUIRED][at])}" for field, at in selected
        )
        text = f"Change the {terms_text} from required to preferred"
        # Anti-affinity survives the failure of a node: another node comes first.
        repels = any(field == "podAntiAffinity" for field, _ in selected)
        cost = len(selected) + RELUCTANT * (repels or has_own_nodes(subject, "InterPodAffinity"))
        yield ProposedChange("affinity", text, make_edits(selected), cost)


def _term_text(term: dict[str, Any]) -> str:
    selector = term.get("labelSelector") or {}
    labels = [f"{key}={text}" for key, text in (selector.get("matchLabels") or {}).items()]
    labels += [
        f"{item.get('key')} {item.get('operator')} {','.join(item.get('values') or ())}".strip()
        for item in selector.get("matchExpressions") or ()
    ]
    return f"({', '.join(labels) or 'every pod'}, per {term.get('topologyKey')})"


@fix()
def drop_labels(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove labels of the pod that other pods or spread constraints select."""
    labels = subject.content.get("metadata", {}).get("labels") or {}

    def make_edits(selected: Sequence[str]) -> list[Edit]:
        draft = subject.live_draft()
        for key in selected:
            draft.remove("metadata", "labels", key)
        return [draft.edit()]

    removable = subject.fewest(list(labels), make_edits)
    if removable is not None:
        names = " and ".join(f"{key}={labels[key]}" for key in removable)
        text = f"Remove the label {names} from the pod: other pods select it"
        # Services and controllers also select pods by labels.
        yield ProposedChange("label", text, make_edits(removable), LAST_RESORT)


@fix()
def free_ports(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest host ports that are in use on a node."""
    host_ports = list(_written_ports(subject))
    sets: dict[tuple[int, ...], None] = {}
    for row in rows:
        used_ports = subject.nodes[row].used_ports
        conflicts = tuple(n for n, (_, _, port) in enumerate(host_ports) if ports_conflict((port,), used_ports))
        if conflicts:
            sets.setdefault(conflicts)
    for conflicts in sorted(sets, key=len)[:MAX_SETS]:
        draft = subject.draft()
        is_host = bool(subject.pod.spec.host_network)
        for number in sorted(conflicts, reverse=True):
            (kind, container), index, _ = host_ports[number]
            path = ("spec", kind, container, "ports", index)
            draft.remove(*path) if is_host else draft.remove(*path, "hostPort")
        description = ", ".join(f"{host_ports[n][2].port}/{host_ports[n][2].protocol}" for n in conflicts)
        # Clients use the port. Containers in the network of the host listen on it even if the pod does not declare it.
        cost = len(conflicts) + (LAST_RESORT if is_host else RELUCTANT)
        yield ProposedChange("port", f"Remove the host port {description}", [draft.edit()], cost)


def _written_ports(subject: Subject) -> Iterator[tuple[tuple[str, int], int, HostPort]]:
    spec = subject.pod.spec
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            if kind == "containers" or container.is_sidecar:
                for index, port in enumerate(container.ports):
                    if port.host_port > 0:
                        host_port = HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
                        yield (kind, number), index, host_port


@fix()
def honor_policies(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Ignore domains of nodes that the pod cannot use: by their taints, or by its own requirements."""
    constraints = subject.content.get("spec", {}).get("topologySpreadConstraints") or []
    path = ("spec", "topologySpreadConstraints")
    for index, item in enumerate(constraints):
        for field in ("nodeTaintsPolicy", "nodeAffinityPolicy"):
            default = "Ignore" if field == "nodeTaintsPolicy" else HONOR
            if item.get("whenUnsatisfiable") == HARD and (item.get(field) or default) != HONOR:
                text = f"Set {field}: {HONOR} in the topology spread over {item.get('topologyKey')}"
                reason = "domains that the pod cannot use then do not count"
                edit = subject.draft().put((*path, index, field), HONOR).edit()
                yield ProposedChange("spread", f"{text}: {reason}", [edit])


@fix()
def lower_min_domains(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Require as many domains as the cluster has."""
    constraints = subject.content.get("spec", {}).get("topologySpreadConstraints") or []
    for index, item in enumerate(constraints):
        key, minimum = str(item.get("topologyKey")), int(item.get("minDomains") or 0)
        domains = len(subject.label_values(key))
        if 0 < domains < minimum:
            edit = subject.draft().put(("spec", "topologySpreadConstraints", index, "minDomains"), domains).edit()
            text = f"Lower minDomains of the topology spread over {key} from {minimum} to {domains}"
            yield ProposedChange("spread", f"{text}: the nodes have {domains} values of it", [edit])


@fix()
def allow_skew(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Raise the skew of a spread constraint as little as possible, or make the constraint a preference.

    Its owner wants to survive the failure of a domain: a node in the other domain comes first.
    """
    constraints = subject.content.get("spec", {}).get("topologySpreadConstraints") or []
    hard = [index for index, item in enumerate(constraints) if item.get("whenUnsatisfiable") == HARD]
    path = ("spec", "topologySpreadConstraints")
    for index in hard:

        def skewed(skew: int, index: int = index) -> list[Edit]:
            return [subject.draft().put((*path, index, "maxSkew"), skew).edit()]

        now = int(constraints[index].get("maxSkew", 1))
        smallest = subject.smallest(now, MAX_SKEW, skewed, now + 1)
        if smallest is not None:
            key = constraints[index].get("topologyKey")
            text = f"Raise maxSkew of the topology spread over {key} from {now} to {smallest}"
            yield ProposedChange("spread", text, skewed(smallest), RELUCTANT + 1)

    def softened(softened_indexes: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for at in softened_indexes:
            draft.put((*path, at, "whenUnsatisfiable"), SOFT)
            if "minDomains" in constraints[at]:
                draft.remove(*path, at, "minDomains")
        return [draft.edit()]

    softened_indexes = subject.fewest(hard, softened)
    if softened_indexes is not None:
        keys = " and ".join(str(constraints[at].get("topologyKey")) for at in softened_indexes)
        text = f"Relax the topology spread over {keys} to whenUnsatisfiable: {SOFT}"
        yield ProposedChange("spread", text, softened(softened_indexes), RELUCTANT + 2)


@fix()
def label_domain(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Add the only missing topology label to a node, so that it belongs to a domain."""
    keys = topology_keys(subject)
    for row in rows[:MAX_SETS]:
        node = subject.nodes[row]
        missing_keys = [key for key in keys if key not in node.labels]
        if len(missing_keys) != 1:
            continue
        values = subject.label_values(missing_keys[0])
        # The name of the node is a valid host name. Another reserved label gets no invented value.
        is_free = missing_keys[0] == HOSTNAME_LABEL or not is_reserved(missing_keys[0])
        for text in [*values[:MAX_SETS], *([node.name] if is_free else ())]:
            description = f"Add the label {missing_keys[0]}={text} to node {node.name}"
            cost = LAST_RESORT if is_reserved(missing_keys[0]) else 2
            yield ProposedChange(
                "node-label", description, [label_edit(subject, node.name, {missing_keys[0]: text})], cost
            )
