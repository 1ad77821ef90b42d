"""Pods and their makers: owner references, templates, revisions, and how far a pod has come."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from moorage.cluster.controllers.actions import Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.common.errors import InputError
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, OwnerReference, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector, label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import AppsWorkload, Job, ReplicationController

Owner: TypeAlias = AppsWorkload | ReplicationController | Job
_PERCENT: Final = re.compile(r"[0-9]{1,18}%").fullmatch
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes names of: no vowels, so no words."""


def owner_reference(owner: KubeObject) -> Data:
    """Return the reference by which an object says who made and manages it."""
    kind = BY_TYPE[type(owner)]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: KubeObject, kind: type[KubeObject]) -> OwnerReference | None:
    """Return the manager of an object if it is of a kind."""
    owner = obj.metadata.controller
    return owner if owner is not None and owner.kind == BY_TYPE[kind].name else None


def owner_keys(obj: KubeObject, kind: type[KubeObject]) -> Iterable[str]:
    """Return the key of an object's manager if it is of a kind: what to look at when the object changes."""
    owner = controller_of(obj, kind)
    return () if owner is None else (f"{obj.namespace}/{owner.name}",)


def managed_pods(owner: KubeObject, cache: InformerCache) -> list[Pod]:
    """Return the pods an object manages, whatever their state."""
    pods = cache[Pod].owned_by(owner.uid)
    return [pod for pod in pods if pod.metadata.controller is not None and pod.metadata.controller.uid == owner.uid]


def selector_of(owner: Owner) -> LabelSelector | None:
    """Return which pods a workload calls its own."""
    selector = owner.spec.selector
    return LabelSelector(match_labels=selector) if isinstance(selector, dict) else selector


def adoptions(owner: Owner, orphans: Iterable[KubeObject]) -> Iterator[Patch]:
    """Take over objects without an owner that a workload selects: those of a predecessor that let them go."""
    selector = selector_of(owner)
    if owner.is_terminating or selector is None:
        return
    matcher = label_matcher(selector)
    for orphan in orphans:
        if not orphan.is_terminating and matcher.matches(orphan.labels):
            yield Patch(orphan, {"metadata": {"ownerReferences": [owner_reference(owner)]}}, if_unchanged=True)


def releases(owner: Owner, owned: Iterable[KubeObject]) -> Iterator[Patch]:
    """Let go of objects that a workload selects no more: somebody took their labels off."""
    selector = selector_of(owner)
    if owner.is_terminating or selector is None:
        return
    matcher = label_matcher(selector)
    for obj in owned:
        if not obj.is_terminating and not matcher.matches(obj.labels):
            yield without_owner(obj, owner.uid)


def pod_claims(owner: Owner, cache: InformerCache) -> list[Patch]:
    """Return the pods to be taken over and let go of before a workload counts its own."""
    orphans = (pod for pod in cache[Pod].orphans_in(owner.namespace) if not pod.is_finished)
    return [*adoptions(owner, orphans), *releases(owner, managed_pods(owner, cache))]


def without_owner(obj: KubeObject, uid: str) -> Patch:
    """Take an owner off an object."""
    kept = [reference_data(owner) for owner in obj.metadata.owner_references if owner.uid != uid]
    return Patch(obj, {"metadata": {"ownerReferences": kept}}, if_unchanged=True)


def reference_data(owner: OwnerReference) -> Data:
    """Write an owner reference as it was."""
    marks = {} if owner.controller is None else {"controller": owner.controller}
    blocks = {} if owner.block_owner_deletion is None else {"blockOwnerDeletion": owner.block_owner_deletion}
    identity = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {**identity, **marks, **blocks}


def adopter_keys(obj: KubeObject, owners: Iterable[Owner]) -> Iterable[str]:
    """Return the keys of the workloads that would take an object without an owner over."""
    if obj.metadata.owner_references:
        return ()
    selecting = ((owner, selector) for owner in owners if (selector := selector_of(owner)) is not None)
    return [owner.key for owner, selector in selecting if label_matcher(selector).matches(obj.labels)]


def pod_of(owner: KubeObject, template: Data, **metadata: Any) -> Data:
    """Make a pod from a template; ``metadata`` is its name and whatever else it gets beside its template's."""
    given = template.get("metadata") or {}
    return {
        "metadata": {
            **metadata,
            "namespace": owner.namespace,
            "labels": {**(given.get("labels") or {}), **metadata.get("labels", {})},
            "annotations": {**(given.get("annotations") or {}), **metadata.get("annotations", {})},
            "finalizers": list(given.get("finalizers") or ()),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": dict(template.get("spec") or {}),
    }


def safe_name(text: str) -> str:
    """Hash a text and write the number without vowels, as Kubernetes names what it makes from something else.

    >>> safe_name("(types.UID)4d2aa5a5-bcca-4b2d-82c9-22d6810e1633")
    '7464df7ddb'
    """
    number = 0x811C9DC5  # FNV-1a, of 32 bits
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def revision_of(template: Data) -> str:
    """Name a template by its content; equal templates have equal names.

    >>> revision_of({"spec": {}}) == revision_of({"spec": {}, "metadata": {}})
    True
    """
    content = {key: value for key, value in template.items() if value}
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def is_active(pod: Pod) -> bool:
    """Return whether a pod counts: it has not ended and is not about to."""
    return not pod.is_finished and not pod.is_terminating


def is_ready(pod: Pod) -> bool:
    """Return whether a pod says it is ready."""
    condition = pod.condition("Ready")
    return condition is not None and condition.status == "True"


def is_available(pod: Pod, min_ready: int, now: float) -> bool:
    """Return whether a pod has been ready for long enough."""
    return is_ready(pod) and ready_since(pod) + min_ready <= now


def ready_since(pod: Pod) -> float:
    """Return since when a pod has been ready, as far as it says."""
    condition = pod.condition("Ready")
    return parse_time(condition.last_transition_time) if condition and condition.last_transition_time else 0.0


def scaled(amount: int | str | None, whole: int, *, round_up: bool) -> int:
    """Resolve a number or a percentage of a whole; InputError if it is neither.

    >>> scaled("25%", 10, round_up=True), scaled("25%", 10, round_up=False), scaled(3, 10, round_up=True)
    (3, 2, 3)
    """
    if amount is None:
        return 0
    if isinstance(amount, int):
        return amount
    if _PERCENT(amount) is None:
        raise InputError("", f"{amount[:20]!r} is neither a number nor a percentage")
    percent = int(amount[:-1]) * whole
    return -(-percent // 100) if round_up else percent // 100


def with_condition(found: Iterable[Data], now: str, **wanted: str) -> list[Data]:
    """Return conditions with one of them as wanted; its times change only when it does."""
    kept = [dict(condition) for condition in found if condition.get("type") != wanted["type"]]
    known = next((dict(item) for item in found if item.get("type") == wanted["type"]), None)
    if known is not None and all(known.get(key) == text for key, text in wanted.items()):
        return [*(dict(condition) for condition in found)]
    since = known["lastTransitionTime"] if known and known.get("status") == wanted["status"] else now
    return [*kept, {**wanted, "lastTransitionTime": since}]
