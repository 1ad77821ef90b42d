"""Hypothetical changes to a cluster: set fields, remove nodes, add nodes."""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import yaml

from moorage.cluster import NodeShape, fake_node
from moorage.common.errors import ApiError, InputError, did_you_mean
from moorage.insight.whatif.edits import DEFAULT_NAMESPACE, ObjectId, put
from moorage.insight.whatif.node_taints import is_temporary
from moorage.insight.whatif.objects import missing
from moorage.kube.api.kinds import BY_NAME, Kind
from moorage.kube.manifests import Document
from moorage.kube.patches import json_patch
from moorage.kube.schema import find_kind_schema, unknown_fields

MAX_ADDED: Final = 100_000
MAX_HINTED: Final = 5
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_SETTING: Final = re.compile(r"([^/:]+)/([^:]+):([^=]+)=(.*)", re.DOTALL)
_STEP: Final = re.compile(r"\[(\d+)\]|((?:\\.|[^.\[\]\\])+)")
_ADDITION: Final = re.compile(r"(\d+)x(.+)")


def apply_changes(
    documents: Iterable[Document],
    *,
    settings: Sequence[str] = (),
    removed: Sequence[str] = (),
    added: Sequence[str] = (),
) -> list[Document]:
    """Apply the changes of a command line in this order. Raise InputError for invalid ones."""
    result = list(documents)
    for wish in removed:
        result = without_nodes(result, wish)
    for wish in added:
        result = with_nodes(result, wish)
    for wish in settings:
        result = with_setting(result, wish)
    return result


def with_setting(documents: Sequence[Document], wish: str) -> list[Document]:
    r"""Set one field: ``deployment/web:spec.replicas=5``. The value is YAML, a dot in a name is written ``\.``."""
    parts = _SETTING.fullmatch(wish)
    if parts is None:
        raise _bad_setting(wish, "not of the form KIND/NAME:FIELD=VALUE")
    kind = find_named_kind(parts[1])
    if kind is None:
        hint = did_you_mean(parts[1].lower(), [kind.name.lower() for kind in BY_NAME.values()])
        raise _bad_setting(wish, f"unknown kind {parts[1]!r}", hint)
    owner, _, name = parts[2].rpartition("/")
    target = ObjectId(kind.name, (owner or DEFAULT_NAMESPACE) if kind.namespaced else "", name)
    path: list[str | int] = [
        int(step[1]) if step[1] is not None else re.sub(r"\\(.)", r"\1", step[2])
        for step in _STEP.finditer(parts[3].strip())
    ]
    if not path or isinstance(path[0], int):
        raise _bad_setting(wish, "the field is missing")
    try:
        value = yaml.safe_load(parts[4])
    except yaml.YAMLError as error:
        raise _bad_setting(wish, "the value is not valid YAML") from error
    matches = [at for at, document in enumerate(documents) if ObjectId.of(document.content) == target]
    if not matches:
        candidates = [ObjectId.of(document.content) for document in documents if document.kind == kind.name]
        hint = missing(target, (candidate.key for candidate in candidates)).hint
        raise _bad_setting(
            wish, f"{kind.name} {target.key} not found", hint or f"the input has {len(candidates)} {kind.plural}"
        )
    content = dict(documents[matches[0]].content)
    known_problems = _unknown_fields(content)
    try:
        content = json_patch(content, [put(content, path, value)])
    except (ApiError, AssertionError, IndexError, KeyError, TypeError) as error:
        raise _bad_setting(wish, "the object has no such field") from error
    if new := _unknown_fields(content) - known_problems:
        raise _bad_setting(wish, f"a {kind.name} has no field {min(new)}")
    result = list(documents)
    result[matches[0]] = Document(content, f"{documents[matches[0]].source} with --set {wish}")
    return result


def _unknown_fields(content: dict[str, Any]) -> set[str]:
    schema = find_kind_schema(str(content.get("apiVersion")), str(content.get("kind")))
    return set(unknown_fields(content, schema)) if schema is not None else set()


def _bad_setting(wish: str, problem: str, hint: str = "") -> InputError:
    example = "use a form such as deployment/web:spec.replicas=5 or node/n1:spec.unschedulable=true"
    return InputError(f"--set {wish}", problem, hint=hint or example)


def find_named_kind(word: str, names: Iterable[str] = BY_NAME) -> Kind | None:
    """Find a kind by its name, plural or short name, as kubectl does."""
    kinds = (BY_NAME[name] for name in names)
    return next((kind for kind in kinds if word.lower() in (kind.name.lower(), kind.plural, *kind.short_names)), None)


def without_nodes(documents: Sequence[Document], wish: str) -> list[Document]:
    """Remove nodes by name, by a pattern of names, or by a label ``key=value``. Their pods become pending.

    Pods that belong to a node (of DaemonSets, and mirror pods) are removed with it.
    """

    def is_selected(document: Document) -> bool:
        key, equals, text = wish.partition("=")
        labels = (document.content.get("metadata") or {}).get("labels") or {}
        return bool(labels.get(key) == text) if equals else fnmatchcase(_name(document), wish)

    nodes = [document for document in documents if document.kind == "Node"]
    removed_names = {_name(document) for document in nodes if is_selected(document)}
    if not removed_names:
        usage = "use the name of a node, a pattern such as pool-a-*, or a label key=value"
        names = list(map(_name, nodes))
        existing = f"; the nodes are {', '.join(names[:MAX_HINTED])}{', …' if len(names) > MAX_HINTED else ''}"
        hint = did_you_mean(wish, names) or usage + (existing if names else "")
        raise InputError(f"--remove-node {wish}", "node not found", hint=hint)
    kept_documents: list[Document] = []
    for document in documents:
        if document.kind in ("Node", "CSINode") and _name(document) in removed_names:
            continue
        node = (document.content.get("spec") or {}).get("nodeName")
        if document.kind == "ResourceSlice" and node in removed_names:
            continue
        if document.kind != "Pod" or node not in removed_names:
            kept_documents.append(document)
        elif not is_bound_to_node(document.content):
            kept_documents.append(Document(evicted(document.content), document.source))
    return kept_documents


def _name(document: Document) -> str:
    return str((document.content.get("metadata") or {}).get("name", ""))


def is_bound_to_node(content: Any) -> bool:
    """Return whether a pod disappears with its node."""
    metadata = content.get("metadata") or {}
    owners = metadata.get("ownerReferences") or ()
    is_mirror = "kubernetes.io/config.mirror" in (metadata.get("annotations") or {})
    return is_mirror or any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners)


def evicted(content: Any) -> dict[str, Any]:
    """Return a pod as its controller would recreate it: without a node and without a status."""
    spec = content.get("spec") or {}
    if isinstance(spec, Mapping):  # other values are rejected when the pod is decoded
        spec = {key: item for key, item in spec.items() if key != "nodeName"}
    metadata = {key: item for key, item in content["metadata"].items() if not key.startswith("deletion")}
    return {**{key: item for key, item in content.items() if key != "status"}, "metadata": metadata, "spec": spec}


def with_nodes(documents: Sequence[Document], wish: str) -> list[Document]:
    """Add nodes: ``3xnode-1`` are three like node-1, ``3xcpu=8,memory=32Gi`` three of that size."""
    parts = _ADDITION.fullmatch(wish)
    if parts is None or int(parts[1]) > MAX_ADDED:
        hint = "use 3xNAME for three copies of a node, or 3xcpu=8,memory=32Gi"
        raise InputError(f"--add-nodes {wish}", "not of the form COUNTxSHAPE", hint=hint)
    count, shape = int(parts[1]), parts[2]
    nodes = {_name(document): document for document in documents if document.kind == "Node"}
    new_documents = []
    for number in range(1, count + 1):
        name = f"{shape if '=' not in shape else 'added'}-new-{number}"
        while name in nodes:
            name += "-new"
        if "=" in shape:
            size = NodeShape.parse(shape if "zones=" in shape else f"{shape},zones=0", where=f"--add-nodes {wish}")
            content = {"apiVersion": "v1", "kind": "Node", **fake_node(name, number, size, 0.0)}
        elif shape in nodes:
            content = cloned_node(nodes[shape].content, name)
        else:
            hint = did_you_mean(shape, list(nodes)) or "use a size such as cpu=8,memory=32Gi"
            raise InputError(f"--add-nodes {wish}", f"node {shape!r} not found", hint=hint)
        new_documents.append(Document(content, f"--add-nodes {wish}"))
    return [*documents, *new_documents]


def cloned_node(content: Any, name: str) -> dict[str, Any]:
    """Return a copy of a node with its labels, taints and size, but without its pods, cordon and failures."""
    metadata, spec, status = content.get("metadata") or {}, content.get("spec") or {}, content.get("status") or {}
    old = metadata.get("name")
    labels = {key: name if text == old else text for key, text in (metadata.get("labels") or {}).items()}
    taints = [item for item in spec.get("taints") or () if not is_temporary(str(item.get("key")))]
    new_status = {
        key: copy.deepcopy(status[key]) for key in ("capacity", "allocatable", "declaredFeatures") if key in status
    }
    head = {"apiVersion": content["apiVersion"], "kind": content["kind"]}
    new_node: dict[str, Any] = {**head, "metadata": {"name": name}, "status": new_status}
    if labels:
        new_node["metadata"]["labels"] = labels
    if taints:
        new_node["spec"] = {"taints": copy.deepcopy(taints)}
    return new_node
