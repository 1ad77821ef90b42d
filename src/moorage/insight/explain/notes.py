"""Facts about the obstacles of a pod that a change alone does not show: owners of gates, zones and sizes of volumes."""

from collections.abc import Iterator
from typing import Final

from moorage.insight.explain.fixes.device_selectors import CAPACITY
from moorage.insight.explain.fixes.devices import list_capacities
from moorage.insight.explain.fixes.resources import describe_amount, guess_unit
from moorage.insight.explain.search import find_gate_owners
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import to_data
from moorage.kube.api.node import ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import format_nanos, nano_value
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim

MAX_ZONES: Final = 6


def find_notes(session: Session, pod: Pod) -> tuple[str, ...]:
    """Return facts about a pending pod, one sentence each."""
    content = session.objects.content(ObjectId("Pod", pod.namespace, pod.name))
    gates = (
        f"the scheduling gate {gate} belongs to {owner}, which removes it when the pod may be scheduled"
        for gate, owner in find_gate_owners(content).items()
    )
    notes = (_describe_units(session, pod), _describe_volumes(session, pod), _describe_devices(session, pod))
    return (*gates, *(note for group in notes for note in group))


def _describe_units(session: Session, pod: Pod) -> Iterator[str]:
    """Point out requests that are far larger than every node: their unit is probably wrong."""
    nodes = session.scheduler.cache.nodes
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for resource, text in container.resources.requests.items():
            largest = max((info.allocatable.get(resource, 0) for info in nodes), default=0)
            if probable := guess_unit(resource, str(text), largest):
                size = f"the largest node has {describe_amount(resource, largest)}"
                question = f"did you mean {probable}?"
                yield f"the {resource} request of container {container.name} is {text}, and {size}: {question}"


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
    amount = nano_value(claim.spec.resources.requests.get("storage", 0))
    free = [item for item in volumes if item.spec.claim_ref is None]
    free = [item for item in free if (item.spec.storage_class_name or "") == (claim.spec.storage_class_name or "")]
    if not free:
        return
    largest = max(free, key=lambda item: nano_value(item.spec.capacity.get("storage", 0)))
    size = nano_value(largest.spec.capacity.get("storage", 0))
    if size < amount:
        sizes = (format_nanos(number, is_binary=True) for number in (amount, size, amount - size))
        requested, available, shortage = sizes
        volume = f"the largest free volume {largest.name} has {available}, {shortage} too little"
        yield f"the claim {claim.name} requests {requested}; {volume}"


def _describe_devices(session: Session, pod: Pod) -> Iterator[str]:
    """Compare the capacities that selectors require with those of the devices."""
    objects = session.objects
    statuses = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        target = ObjectId("ResourceClaim", pod.namespace, use.resource_claim_name or statuses.get(use.name) or "")
        devices = (objects.content(target).get("spec") or {}).get("devices") if target in objects else None
        for request in (devices or {}).get("requests") or ():
            for selector in (request.get("exactly") or {}).get("selectors") or ():
                expression = str((selector.get("cel") or {}).get("expression", ""))
                for name, _, amount in CAPACITY.findall(expression):
                    size, device, node = next(iter(list_capacities(objects, name)), (0, "", ""))
                    if device and size < nano_value(amount):
                        shortage = format_nanos(nano_value(amount) - size, is_binary=True)
                        have = format_nanos(size, is_binary=True)
                        largest = f"the largest device {device} on node {node} has {have}"
                        yield f"the claim {target.name} requires {name} of {amount}; {largest}, {shortage} too little"
