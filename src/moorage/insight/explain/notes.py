"""Facts about the obstacles of a pod that a change alone does not show: owners of gates, zones and sizes of volumes."""

import re
from collections.abc import Iterator
from typing import Final

from moorage.insight.explain.search import find_gate_owners
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import to_data
from moorage.kube.api.node import ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import format_nanos, nano_value
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim

MAX_ZONES: Final = 6
_REQUIRED_CAPACITY: Final = re.compile(r"capacity\[[^]]+\]\.(\w+)\D*?quantity\([\"']([^\"']+)[\"']\)")
"""Selectors that compare a capacity of a device: ``device.capacity["x"].memory.compareTo(quantity("80Gi"))``."""


def find_notes(session: Session, pod: Pod) -> tuple[str, ...]:
    """Return facts about a pending pod, one sentence each."""
    content = session.objects.content(ObjectId("Pod", pod.namespace, pod.name))
    gates = (
        f"the scheduling gate {gate} belongs to {owner}, which removes it when the pod may be scheduled"
        for gate, owner in find_gate_owners(content).items()
    )
    return (*gates, *_describe_volumes(session, pod), *_describe_devices(session, pod))


def _describe_volumes(session: Session, pod: Pod) -> Iterator[str]:
    objects = session.scheduler.objects
    wanted_zone = (pod.spec.node_selector or {}).get(ZONE_LABEL, "")
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        claim = objects[PersistentVolumeClaim].get(source.claim_name, pod.namespace) if source is not None else None
        if claim is None:
            continue
        if claim.spec.volume_name:
            bound = objects[PersistentVolume].find(claim.spec.volume_name)
            zones = [] if bound is None else _zones(bound)
            if zones:
                wish = f", and the pod requires zone {wanted_zone}" if wanted_zone else ""
                names = ", ".join(zones[:MAX_ZONES])
                yield f"the volume {claim.spec.volume_name} of the claim {claim.name} is in zone {names}{wish}"
        else:
            yield from _describe_sizes(claim, list(objects[PersistentVolume].list()))


def _zones(volume: PersistentVolume) -> list[str]:
    labels = [
        volume.labels[key] for key in (ZONE_LABEL, "failure-domain.beta.kubernetes.io/zone") if key in volume.labels
    ]
    required = to_data(volume).get("spec", {}).get("nodeAffinity", {}).get("required", {})
    expressions = [item for term in required.get("nodeSelectorTerms", ()) for item in term.get("matchExpressions", ())]
    zones = [zone for item in expressions if item.get("key") == ZONE_LABEL for zone in item.get("values", ())]
    return list(dict.fromkeys((*labels, *zones)))


def _describe_sizes(claim: PersistentVolumeClaim, volumes: list[PersistentVolume]) -> Iterator[str]:
    """Compare an unbound claim with the free volumes of its class."""
    wanted = nano_value(claim.spec.resources.requests.get("storage", 0))
    free = [item for item in volumes if item.spec.claim_ref is None]
    free = [item for item in free if (item.spec.storage_class_name or "") == (claim.spec.storage_class_name or "")]
    if not free:
        return
    largest = max(free, key=lambda item: nano_value(item.spec.capacity.get("storage", 0)))
    size = nano_value(largest.spec.capacity.get("storage", 0))
    if size < wanted:
        sizes = (format_nanos(amount, is_binary=True) for amount in (wanted, size, wanted - size))
        requested, available, missing = sizes
        volume = f"the largest free volume {largest.name} has {available}, {missing} too little"
        yield f"the claim {claim.name} requests {requested}; {volume}"


def _describe_devices(session: Session, pod: Pod) -> Iterator[str]:
    """Compare the capacities that selectors require with those of the devices."""
    objects = session.objects
    statuses = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    sizes = [
        (device, slice_spec.get("nodeName") or "")
        for target in objects.known("ResourceSlice")
        for slice_spec in [objects.content(target).get("spec") or {}]
        for device in slice_spec.get("devices") or ()
    ]
    for use in pod.spec.resource_claims:
        target = ObjectId("ResourceClaim", pod.namespace, use.resource_claim_name or statuses.get(use.name) or "")
        devices = (objects.content(target).get("spec") or {}).get("devices") if target in objects else None
        for request in (devices or {}).get("requests") or ():
            for selector in (request.get("exactly") or {}).get("selectors") or ():
                expression = str((selector.get("cel") or {}).get("expression", ""))
                for name, amount in _REQUIRED_CAPACITY.findall(expression):
                    capacities = [
                        (nano_value(capacity["value"]), device.get("name"), node)
                        for device, node in sizes
                        for key, capacity in (device.get("capacity") or {}).items()
                        if key.rpartition("/")[2] == name
                    ]
                    size, device_name, node = max(capacities, default=(0, "", ""))
                    if device_name and size < nano_value(amount):
                        missing = format_nanos(nano_value(amount) - size, is_binary=True)
                        have = format_nanos(size, is_binary=True)
                        largest = f"the largest device {device_name} on node {node} has {have}"
                        yield f"the claim {target.name} requires {name} of {amount}; {largest}, {missing} too little"
