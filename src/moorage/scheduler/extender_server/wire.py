"""The extender's protocol on the server's side: kube-scheduler's requests, and the responses.

Go ignores the case of keys, and so does this module.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from moorage.common.errors import InputError
from moorage.kube.api.codec import UNREADABLE, decode
from moorage.kube.api.pod import Pod

NOT_CAPABLE: Final = "set nodeCacheCapable: true for this extender: it has its own cache and accepts only names"
MAX_SHOWN: Final = 200


class NodeQuestion(Struct, frozen=True):
    """A pod and its candidate nodes: the request of filter and prioritize."""

    pod: Pod
    nodes: tuple[str, ...]


class ProposedVictims(Struct, frozen=True):
    """The victims on a node by uid, and the number of them that a budget protects."""

    uids: tuple[str, ...]
    violations: int = 0


class VictimQuestion(Struct, frozen=True):
    """An infeasible pod, and the proposed victims by node."""

    pod: Pod
    victims: Mapping[str, ProposedVictims]


class BindRequest(Struct, frozen=True):
    """A pod and the node to bind it to."""

    name: str
    namespace: str
    uid: str
    node: str


def node_question(body: bytes) -> NodeQuestion:
    """Read a request of filter or prioritize; raise InputError if it is invalid."""
    fields = _fields(body)
    names = _part(fields, "nodenames", list[str] | None)
    if names is None:
        raise InputError("NodeNames", "there are none", hint=NOT_CAPABLE)
    return NodeQuestion(_pod(fields), tuple(dict.fromkeys(names)))


def victim_question(body: bytes) -> VictimQuestion:
    """Read a request of preempt; raise InputError if it is invalid."""
    fields = _fields(body)
    victims_by_node = _part(fields, "nodenametometavictims", dict[str, dict[str, Any] | None] | None)
    if victims_by_node is None:
        raise InputError("NodeNameToMetaVictims", "there are none", hint=NOT_CAPABLE)
    return VictimQuestion(_pod(fields), {name: _proposed(name, content) for name, content in victims_by_node.items()})


def bind_request(body: bytes) -> BindRequest:
    """Read a request of bind; raise InputError if it is invalid."""
    fields = _fields(body)
    texts = [_part(fields, name, str | None) or "" for name in ("podname", "podnamespace", "poduid", "node")]
    for name, text in zip(("PodName", "PodNamespace", "PodUID", "Node"), texts, strict=True):
        if not text:
            raise InputError(name, "it is missing")
    return BindRequest(*texts)


def _proposed(node: str, content: Mapping[str, Any] | None) -> ProposedVictims:
    folded = {key.lower(): item for key, item in (content or {}).items()}
    pods, violations = folded.get("pods") or [], folded.get("numpdbviolations") or 0
    where = f"NodeNameToMetaVictims[{node[:MAX_SHOWN]}]"
    if not isinstance(pods, list) or not all(isinstance(pod, dict) for pod in pods) or not isinstance(violations, int):
        raise InputError(where, "this is not {Pods: [{UID: …}], NumPDBViolations: …}")
    uids = [next((item for key, item in pod.items() if key.lower() == "uid"), None) for pod in pods]
    if not all(isinstance(uid, str) for uid in uids):
        raise InputError(where, "a victim has no UID")
    return ProposedVictims(tuple(uids), violations)  # type: ignore[arg-type]


def _fields(body: bytes) -> dict[str, Raw]:
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
    except UNREADABLE as error:
        raise InputError("the body", f"it is not a JSON object: {error}") from error
    return {key.lower(): item for key, item in fields.items()}


def _part(fields: Mapping[str, Raw], name: str, kind: Any) -> Any:
    if name not in fields:
        return None
    try:
        return msgspec.json.decode(fields[name], type=kind)
    except UNREADABLE as error:
        raise InputError(name, f"it cannot be read: {error}") from error


def _pod(fields: Mapping[str, Raw]) -> Pod:
    if "pod" not in fields or bytes(fields["pod"]) == b"null":
        raise InputError("Pod", "it is missing")
    try:
        pod = decode(Pod, bytes(fields["pod"]))
    except UNREADABLE as error:
        raise InputError("Pod", f"it cannot be read: {error}") from error
    if not pod.name:
        raise InputError("Pod", "it has no name")
    return pod


def filter_result(kept: Iterable[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]) -> bytes:
    """Write the response of filter: the names of feasible nodes, and the reasons of the rest."""
    result = {
        "Nodes": None,
        "NodeNames": list(kept),
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }
    return msgspec.json.encode(result)


def filter_error(message: str) -> bytes:
    """Write that filtering failed: users find it in the events of the pod."""
    return msgspec.json.encode({"Nodes": None, "NodeNames": None, "FailedNodes": None, "Error": message})


def priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """Write the scores of nodes."""
    return msgspec.json.encode([{"Host": name, "Score": score} for name, score in scores])


def preemption_result(victims: Mapping[str, ProposedVictims]) -> bytes:
    """Write the accepted nodes and their victims."""
    victims_by_node = {
        name: {"Pods": [{"UID": uid} for uid in agreed.uids], "NumPDBViolations": agreed.violations}
        for name, agreed in victims.items()
    }
    return msgspec.json.encode({"NodeNameToMetaVictims": victims_by_node})


def bind_result(problem: str = "") -> bytes:
    """Write whether a pod was bound."""
    return msgspec.json.encode({"Error": problem})
