"""Pods and their controllers: owner references, templates, revisions and readiness."""

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
"""The alphabet of generated names. Without vowels, names cannot form words."""


def owner_reference(owner: KubeObject) -> Data:
    """Return a controller owner reference."""
    kind = BY_TYPE[type(owner)]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_keys(obj: KubeObject, kind: type[KubeObject]) -> Iterable[str]:
    """Return the key of an object's controller if it is of a kind."""
    owner = obj.metadata.controller
    return () if owner is None or owner.kind != BY_TYPE[kind].name else (f"{obj.namespace}/{owner.name}",)


def managed_pods(owner: KubeObject, cache: InformerCache) -> list[Pod]:
    """Return all pods controlled by an object."""
    pods = cache[Pod].owned_by(owner.uid)
    return [pod for pod in pods if pod.metadata.controller is not None and pod.metadata.controller.uid == owner.uid]


def pod_selector(owner: Owner) -> LabelSelector | None:
    """Return the pod selector of a workload."""
    selector = owner.spec.selector
    return LabelSelector(match_labels=selector) if isinstance(selector, dict) else selector


def adoptions(owner: Owner, orphans: Iterable[KubeObject]) -> Iterator[Patch]:
    """Adopt orphans that a workload selects."""
    selector = pod_selector(owner)
    if not owner.is_terminating and selector is not None:
        matcher = label_matcher(selector)
        for orphan in orphans:
            if not orphan.is_terminating and matcher.matches(orphan.labels):
                yield Patch(orphan, {"metadata": {"ownerReferences": [owner_reference(owner)]}}, if_unchanged=True)


def pod_claims(owner: Owner, cache: InformerCache) -> list[Patch]:
    """Return the adoptions and releases that must precede the counting of a workload's pods.

    Pods are released if the workload no longer selects them because their labels changed.
    """
    orphans = (pod for pod in cache[Pod].list_orphans(owner.namespace) if not pod.is_finished)
    claims, selector = [*adoptions(owner, orphans)], pod_selector(owner)
    if not owner.is_terminating and selector is not None:
        matcher, pods = label_matcher(selector), managed_pods(owner, cache)
        released = (pod for pod in pods if not pod.is_terminating and not matcher.matches(pod.labels))
        claims += [without_owner(pod, owner.uid) for pod in released]
    return claims


def without_owner(obj: KubeObject, uid: str) -> Patch:
    """Remove an owner reference from an object."""
    return owned_by(obj, [owner for owner in obj.metadata.owner_references if owner.uid != uid])


def owned_by(obj: KubeObject, owners: Iterable[OwnerReference]) -> Patch:
    """Replace the owner references of an object."""
    references = [msgspec.to_builtins(owner) for owner in owners]
    return Patch(obj, {"metadata": {"ownerReferences": references}}, if_unchanged=True)


def without_finalizer(obj: KubeObject, finalizer: str) -> Patch:
    """Remove a finalizer from an object."""
    finalizers = [name for name in obj.metadata.finalizers if name != finalizer]
    return Patch(obj, {"metadata": {"finalizers": finalizers}}, if_unchanged=True)


def adopter_keys(obj: KubeObject, owners: Iterable[Owner]) -> Iterable[str]:
    """Return the keys of the workloads that would adopt an orphan."""
    if obj.metadata.owner_references:
        return ()
    selecting = ((owner, selector) for owner in owners if (selector := pod_selector(owner)) is not None)
    return [owner.key for owner, selector in selecting if label_matcher(selector).matches(obj.labels)]


def pod_from_template(owner: KubeObject, template: Data, **metadata: Any) -> Data:
    """Return a pod made from a template. ``metadata`` is added to the template's."""
    template_metadata = template.get("metadata") or {}
    return {
        "metadata": {
            **metadata,
            "namespace": owner.namespace,
            "labels": {**(template_metadata.get("labels") or {}), **metadata.get("labels", {})},
            "annotations": {**(template_metadata.get("annotations") or {}), **metadata.get("annotations", {})},
            "finalizers": list(template_metadata.get("finalizers") or ()),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": dict(template.get("spec") or {}),
    }


def safe_name(text: str) -> str:
    """Hash a text and encode the number without vowels, as Kubernetes does for generated names.

    >>> safe_name("(types.UID)4d2aa5a5-bcca-4b2d-82c9-22d6810e1633")
    '7464df7ddb'
    """
    number = 0x811C9DC5  # FNV-1a, of 32 bits
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def template_hash(template: Data) -> str:
    """Return the revision hash of a template. Equal templates have equal hashes.

    >>> template_hash({"spec": {}}) == template_hash({"spec": {}, "metadata": {}})
    True
    """
    content = {key: value for key, value in template.items() if value}
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def is_active(pod: Pod) -> bool:
    """Return whether a pod is neither finished nor terminating."""
    return not pod.is_finished and not pod.is_terminating


def is_ready(pod: Pod) -> bool:
    """Return whether a pod has the condition Ready."""
    condition = pod.condition("Ready")
    return condition is not None and condition.status == "True"


def is_available(pod: Pod, min_ready: int, now: float) -> bool:
    """Return whether a pod has been ready for minReadySeconds."""
    return is_ready(pod) and find_ready_time(pod) + min_ready <= now


def find_ready_time(pod: Pod) -> float:
    """Return when a pod became ready, or 0 if unknown."""
    condition = pod.condition("Ready")
    return parse_time(condition.last_transition_time) if condition and condition.last_transition_time else 0.0


def scaled(amount: int | str | None, total: int, *, round_up: bool) -> int:
    """Resolve a number or a percentage of a total. Raise InputError if it is neither.

    >>> scaled("25%", 10, round_up=True), scaled("25%", 10, round_up=False), scaled(3, 10, round_up=True)
    (3, 2, 3)
    """
    if amount is None:
        return 0
    if isinstance(amount, int):
        return amount
    if _PERCENT(amount) is None:
        raise InputError("", f"{amount[:20]!r} is neither a number nor a percentage")
    percent = int(amount[:-1]) * total
    return -(-percent // 100) if round_up else percent // 100


def with_condition(conditions: Iterable[Data], now: str, **desired: str) -> list[Data]:
    """Return conditions with one of them replaced. lastTransitionTime changes only with the status."""
    copies = [dict(condition) for condition in conditions]
    unchanged = [condition for condition in copies if condition.get("type") != desired["type"]]
    current = next((condition for condition in copies if condition.get("type") == desired["type"]), None)
    if current is not None and all(current.get(key) == text for key, text in desired.items()):
        return copies
    changed_at = current["lastTransitionTime"] if current and current.get("status") == desired["status"] else now
    return [*unchanged, {**desired, "lastTransitionTime": changed_at}]
