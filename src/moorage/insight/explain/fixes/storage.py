"""Volumes and devices: remove them, create missing ones, or raise the limit of a node."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.insight.explain.subject import LAST_RESORT, Draft, ProposedChange, Subject, fix
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, remove_items
from moorage.kube.api.storage import CSINode, PersistentVolumeClaim, StorageClass

WAITS: Final = "WaitForFirstConsumer"
CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
MAX_NODES: Final = 8


@fix()
def drop_volumes(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest volumes."""
    volumes = subject.content.get("spec", {}).get("volumes") or []
    indexes = [index for index, volume in enumerate(subject.pod.spec.volumes) if not volume.is_plain]

    def edits_for(selected: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for index in sorted(selected, reverse=True):
            name = volumes[index].get("name")
            _drop_from_containers(draft, ("volumeMounts",), name)
            _drop_from_containers(draft, ("volumeDevices",), name)
            draft.remove("spec", "volumes", index)
        return [draft.edit()]

    removable = subject.fewest(indexes, edits_for)
    if removable is not None:
        names = " and ".join(str(volumes[index].get("name")) for index in removable)
        yield ProposedChange("volume", f"Remove the volume {names}", edits_for(removable), LAST_RESORT)


def _drop_from_containers(draft: Draft, path: tuple[str, ...], name: Any) -> None:
    for kind in CONTAINERS:
        for number, container in enumerate(draft.content.get("spec", {}).get(kind) or ()):
            mounts: Any = container
            for step in path:
                mounts = (mounts or {}).get(step)
            indexes = [index for index, item in enumerate(mounts or ()) if item.get("name") == name]
            draft.do(*remove_items(("spec", kind, number, *path), indexes))


@fix()
def make_claim(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Create a missing claim of a volume, with a class that provisions on demand."""
    objects = subject.session.objects
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is None or ObjectId("PersistentVolumeClaim", subject.pod.namespace, source.claim_name) in objects:
            continue
        for name in _provisioning_classes(subject)[:MAX_NODES]:
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": source.claim_name, "namespace": subject.pod.namespace},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": name,
                },
            }
            text = f"Create the claim {source.claim_name} with the storage class {name}"
            yield ProposedChange("claim", text, [CreateObject(claim)], 1)


@fix()
def change_class(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Change the class of an unbound claim to one that creates volumes for the node of the pod."""
    for claim in _unbound_claims(subject):
        target, old = ObjectId("PersistentVolumeClaim", claim.namespace, claim.name), claim.spec.storage_class_name
        classes = [name for name in _provisioning_classes(subject) if name != old]
        for class_name in classes[:MAX_NODES]:
            draft = Draft(target, subject.session.objects.content(target), must_replace=True)
            edit = draft.put(("spec", "storageClassName"), class_name).edit()
            was = f" from {old}" if old else ""
            text = f"Change the storage class of the claim {claim.name}{was} to {class_name}"
            yield ProposedChange("claim", text, [edit], 2)


def _provisioning_classes(subject: Subject) -> list[str]:
    lister = subject.session.scheduler.objects[StorageClass]
    return [item.name for item in lister.list() if item.volume_binding_mode == WAITS]


def _unbound_claims(subject: Subject) -> Iterator[PersistentVolumeClaim]:
    """Return the existing claims of the pod's volumes that have no volume yet."""
    claims = subject.session.scheduler.objects[PersistentVolumeClaim]
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        name = source.claim_name if source is not None else f"{subject.pod.name}-{volume.name}"
        if source is not None or volume.ephemeral:
            claim = claims.get(name, subject.pod.namespace)
            if claim is not None and not claim.spec.volume_name:
                yield claim


@fix()
def make_volume(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Create a volume for an unbound claim that every node can reach."""
    for claim in _unbound_claims(subject):
        made_name, number = f"{claim.name}-volume", 1
        while ObjectId("PersistentVolume", "", made_name) in subject.session.objects:
            made_name, number = f"{claim.name}-volume-{number}", number + 1
        spec: dict[str, Any] = {
            "capacity": {"storage": claim.spec.resources.requests.get("storage", "1Gi")},
            "accessModes": list(claim.spec.access_modes),
            "hostPath": {"path": f"/volumes/{made_name}"},
        }
        if claim.spec.storage_class_name:
            spec["storageClassName"] = claim.spec.storage_class_name
        if claim.spec.volume_mode:
            spec["volumeMode"] = claim.spec.volume_mode
        metadata: dict[str, Any] = {"name": made_name}
        if claim.spec.selector is not None and claim.spec.selector.match_labels:
            metadata["labels"] = dict(claim.spec.selector.match_labels)
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata}
        volume = CreateObject({**head, "spec": spec, "status": {"phase": "Available"}})
        yield ProposedChange("volume", f"Create a volume for the claim {claim.name}", [volume], 2)


@fix()
def raise_volume_limit(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Raise the volume limit of a driver on a node as little as possible."""
    lister = subject.session.scheduler.objects[CSINode]
    for row in rows[:MAX_NODES]:
        node = lister.get(subject.nodes[row].name)
        for index, driver in enumerate(node.spec.drivers if node is not None else ()):
            count = driver.allocatable.count if driver.allocatable is not None else None
            if node is None or count is None:
                continue

            def edits_for(limit: int, index: int = index, name: str = node.name) -> list[Edit]:
                draft = subject.draft_object("CSINode", name, must_replace=True)
                return [draft.put(("spec", "drivers", index, "allocatable", "count"), limit).edit()]

            most = count + len(subject.nodes[row].pods) * 8 + len(subject.pod.spec.volumes) + 1
            limit = subject.smallest(count, most, edits_for, count + 1)
            if limit is not None:
                text = f"Raise the volume limit of {driver.name} on node {node.name} from {count} to {limit}"
                yield ProposedChange("node-capacity", text, edits_for(limit), 2)


@fix()
def drop_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest resource claims."""
    claims = subject.content.get("spec", {}).get("resourceClaims") or []

    def edits_for(selected: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for index in sorted(selected, reverse=True):
            _drop_from_containers(draft, ("resources", "claims"), claims[index].get("name"))
            draft.remove("spec", "resourceClaims", index)
        return [draft.edit()]

    removable = subject.fewest(list(range(len(claims))), edits_for)
    if removable is not None:
        names = " and ".join(str(claims[index].get("name")) for index in removable)
        yield ProposedChange("claim", f"Remove the claim {names}", edits_for(removable), LAST_RESORT)


@fix()
def loosen_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest device selectors and constraints."""
    paths = [
        (target, path, description)
        for target in _device_claims(subject)
        for path, description in _demands(subject.session.objects.content(target))
    ]

    def edits_for(selected: Sequence[tuple[ObjectId, tuple[str | int, ...], str]]) -> list[Edit]:
        drafts: dict[ObjectId, Draft] = {}
        for target, path, _ in reversed(selected):
            content = subject.session.objects.content(target)
            drafts.setdefault(target, Draft(target, content, must_replace=True)).remove(*path)
        return [draft.edit() for draft in drafts.values()]

    removable = subject.fewest(paths, edits_for)
    if removable is not None:
        description = " and ".join(f"{text} of the claim {target.name}" for target, _, text in removable)
        yield ProposedChange("claim", f"Remove {description}", edits_for(removable), 2)


def _device_claims(subject: Subject) -> Iterator[ObjectId]:
    """List the existing claims of the pod that have no devices yet."""
    statuses = {item.name: item.resource_claim_name for item in subject.pod.status.resource_claim_statuses}
    for use in subject.pod.spec.resource_claims:
        target = ObjectId(
            "ResourceClaim", subject.pod.namespace, use.resource_claim_name or statuses.get(use.name) or ""
        )
        if target in subject.session.objects:
            content = subject.session.objects.content(target)
            if not (content.get("status") or {}).get("allocation"):
                yield target


def _demands(content: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """List the device requirements of a claim, in the order of the manifest."""
    devices = (content.get("spec") or {}).get("devices") or {}
    for at, request in enumerate(devices.get("requests") or ()):
        way = ("spec", "devices", "requests", at)
        if (request.get("exactly") or {}).get("selectors"):
            yield (*way, "exactly", "selectors"), f"the selectors of request {request.get('name')}"
        for number, option in enumerate(request.get("firstAvailable") or ()):
            if option.get("selectors"):
                path = (*way, "firstAvailable", number, "selectors")
                yield path, f"the selectors of request {request.get('name')}/{option.get('name')}"
    if devices.get("constraints"):
        yield ("spec", "devices", "constraints"), "the constraints"


@fix()
def shrink_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Request fewer devices in a claim, as many as fit."""
    for target in _device_claims(subject):
        content = subject.session.objects.content(target)
        for index, request in enumerate(((content.get("spec") or {}).get("devices") or {}).get("requests") or ()):
            count = int((request.get("exactly") or {}).get("count") or 1)
            if count < 2:
                continue

            def edits_for(device_count: int, index: int = index, target: ObjectId = target) -> list[Edit]:
                draft = Draft(target, subject.session.objects.content(target), must_replace=True)
                return [draft.put(("spec", "devices", "requests", index, "exactly", "count"), device_count).edit()]

            largest = subject.largest(1, count, edits_for, count - 1)
            if largest is not None:
                where = f"the request {request['name']} of the claim {target.name}"
                text = f"Request {largest} instead of {count} devices in {where}"
                yield ProposedChange("claim", text, edits_for(largest), 1)
