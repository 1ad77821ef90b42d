"""Owners and namespaces that manifests refer to but do not contain, as in a file with only nodes and pods."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from moorage.kube.manifests import Document

Identity = tuple[str, str, str]
"""Kind, namespace and name."""

CREATED: Final = ("ReplicaSet", "StatefulSet")
NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
HOST_FIELDS: Final = ("nodeName", "hostname", "subdomain")
LAST: Final = ("Deployment", "CronJob")
"""Owners of other workloads."""


def find_absent_owners(manifests: Iterable[Document]) -> set[str]:
    """Return the UIDs of owners that manifests do not contain, and of nodes, whose UIDs change."""
    items = list(manifests)
    present = {_identify(item) for item in items}
    return {owner["uid"] for item in items for owner in _owners(item) if not _is_present(_owner(item, owner), present)}


def order_by_ownership(manifests: Iterable[Document]) -> list[list[Document]]:
    """Return manifests in phases: dependents first, without references to owners of later phases.

    The server assigns other UIDs to owners. They adopt their dependents by their selectors.
    """
    items = list(manifests)
    present = {_identify(item) for item in items}
    adopting = {_owner(item, owner) for item in items for owner in _owners(item)} & present
    phases: tuple[list[Document], ...] = ([], [], [])
    for item in items:
        is_owner = _is_present(_identify(item), adopting)
        owners = _owners(item)
        absent_owners = [owner for owner in owners if not _is_present(_owner(item, owner), present)]
        if len(absent_owners) < len(owners):
            metadata = {**item.content["metadata"], "ownerReferences": absent_owners}
            item = replace(item, content={**item.content, "metadata": metadata})  # noqa: PLW2901
        phases[is_owner + (is_owner and item.kind in LAST)].append(item)
    return [phase for phase in phases if phase]


def create_absent(manifests: Iterable[Document]) -> list[Document]:
    """Create the namespaces of manifests, and owners of their pods, that manifests do not contain."""
    items = list(manifests)
    present = {*NAMESPACES, *(item.content["metadata"]["name"] for item in items if item.kind == "Namespace")}
    required_namespaces = dict.fromkeys(item.content["metadata"].get("namespace") or "default" for item in items)
    namespaces = [
        Document({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, f"namespace {name}")
        for name in required_namespaces
        if name not in present
    ]
    return [*namespaces, *create_owners(items)]


def create_owners(manifests: Iterable[Document]) -> list[Document]:
    """Create absent ReplicaSets and StatefulSets of pods, so that evicted pods are recreated.

    The template is the first pod; the selector consists of the labels that all pods have. An owner that would adopt
    other pods, or create more of them, is not created.
    """
    items = list(manifests)
    present = {_identify(item) for item in items}
    members: dict[Identity, list[Document]] = {}
    for pod in (item for item in items if item.kind == "Pod"):
        for owner in _owners(pod):
            if owner.get("controller") and owner.get("kind") in CREATED and _owner(pod, owner) not in present:
                members.setdefault(_owner(pod, owner), []).append(pod)
    created = []
    for (kind, namespace, name), pods in members.items():
        common = set.intersection(*({*_labels(pod).items()} for pod in pods))
        orphans = (item for item in items if item.kind == "Pod" and not _owners(item))
        is_ambiguous = any(_identify(pod)[1] == namespace and common <= {*_labels(pod).items()} for pod in orphans)
        spec = {key: value for key, value in pods[0].content["spec"].items() if key not in HOST_FIELDS}
        names = {_identify(pod)[2] for pod in pods}
        is_incomplete = kind == "StatefulSet" and names != {f"{name}-{number}" for number in range(len(pods))}
        if not common or is_ambiguous or is_incomplete or spec.get("restartPolicy", "Always") != "Always":
            continue
        content = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": len(pods),
                "selector": {"matchLabels": dict(sorted(common))},
                "template": {"metadata": {"labels": _labels(pods[0])}, "spec": spec},
                # The pods have no revision: a rolling update would replace them.
                **({"serviceName": name, "updateStrategy": {"type": "OnDelete"}} if kind == "StatefulSet" else {}),
            },
        }
        created.append(Document(content, pods[0].source))
    return created


def _identify(item: Document) -> Identity:
    metadata = item.content["metadata"]
    return item.kind, metadata.get("namespace") or "default", metadata["name"]


def _owner(item: Document, owner: Mapping[str, Any]) -> Identity:
    return owner.get("kind", ""), _identify(item)[1], owner.get("name", "")


def _owners(item: Document) -> list[dict[str, Any]]:
    """Return the owner references with a UID. The server reports the others."""
    references = item.content["metadata"].get("ownerReferences")
    if not isinstance(references, list):
        return []
    return [owner for owner in references if isinstance(owner, dict) and "uid" in owner]


def _is_present(owner: Identity, present: Container[Identity]) -> bool:
    """Return whether an owner is present and adopts its dependents. Nodes do not."""
    return owner[0] != "Node" and owner in present


def _labels(item: Document) -> dict[str, str]:
    return item.content["metadata"].get("labels") or {}
