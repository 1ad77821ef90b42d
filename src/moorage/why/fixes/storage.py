"""Volumes and devices: do without, make what is missing, or let a node hold more."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.api.storage import CSINode, PersistentVolumeClaim, StorageClass
from moorage.whatif.edits import CreateObject, Edit, ObjectId, remove_items
from moorage.why.subject import Draft, Remedy, Subject

WAITS: Final = "WaitForFirstConsumer"
CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
MAX_NODES: Final = 8


def drop_volumes(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Do without volumes: as few as will do."""
    volumes = subject.content.get("spec", {}).get("volumes") or []
    places = [place for place, volume in enumerate(subject.pod.spec.volumes) if not volume.is_plain]

    def edits_for(chosen: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for place in sorted(chosen, reverse=True):
            name = volumes[place].get("name")
            _drop_from_containers(draft, ("volumeMounts",), name)
            _drop_from_containers(draft, ("volumeDevices",), name)
            draft.remove("spec", "volumes", place)
        return [draft.edit()]

    found = subject.fewest(places, edits_for)
    if found is not None:
        names = " and ".join(str(volumes[place].get("name")) for place in found)
        if offer := subject.offer("volume", f"Do without the volume {names}", *edits_for(found), cost=5):
            yield offer


def _drop_from_containers(draft: Draft, path: tuple[str, ...], name: Any) -> None:
    for kind in CONTAINERS:
        for number, container in enumerate(draft.content.get("spec", {}).get(kind) or ()):
            listed: Any = container
            for step in path:
                listed = (listed or {}).get(step)
            places = [place for place, item in enumerate(listed or ()) if item.get("name") == name]
            draft.do(*remove_items(("spec", kind, number, *path), places))


def make_claim(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Make the claim that a volume names and that is not there, of a class that provisions on demand."""
    objects = subject.session.objects
    lister = subject.session.scheduler.objects[StorageClass]
    classes = [item.name for item in lister.list() if item.volume_binding_mode == WAITS]
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is None or ObjectId("PersistentVolumeClaim", subject.pod.namespace, source.claim_name) in objects:
            continue
        for name in classes[:MAX_NODES]:
            made = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": source.claim_name, "namespace": subject.pod.namespace},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": name,
                },
            }
            text = f"Make the claim {source.claim_name}, of storage class {name}"
            if offer := subject.offer("claim", text, CreateObject(made), cost=1):
                yield offer
                return


def make_volume(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Make a volume that an unbound claim can have, reachable from every node."""
    objects = subject.session.objects
    claims = subject.session.scheduler.objects[PersistentVolumeClaim]
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        name = (
            source.claim_name if source is not None else f"{subject.pod.name}-{volume.name}" if volume.ephemeral else ""
        )
        claim = claims.get(name, subject.pod.namespace) if name else None
        if claim is None or claim.spec.volume_name:
            continue
        made_name, number = f"{name}-volume", 1
        while ObjectId("PersistentVolume", "", made_name) in objects:
            made_name, number = f"{name}-volume-{number}", number + 1
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
        made = {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata,
            "spec": spec, "status": {"phase": "Available"},
        }  # fmt: skip
        text = f"Make a volume for the claim {name}"
        if offer := subject.offer("volume", text, CreateObject(made), cost=2):
            yield offer
            return


def raise_volume_limit(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Let a node hold more volumes of a driver: as many more as will do."""
    lister = subject.session.scheduler.objects[CSINode]
    for row in rows[:MAX_NODES]:
        node = lister.get(subject.nodes[row].name)
        for place, driver in enumerate(node.spec.drivers if node is not None else ()):
            count = driver.allocatable.count if driver.allocatable is not None else None
            if node is None or count is None:
                continue

            def edits_for(less: int, place: int = place, name: str = node.name) -> list[Edit]:
                draft = subject.draft_of("CSINode", name)
                return [draft.put(("spec", "drivers", place, "allocatable", "count"), -less).edit()]

            most = count + len(subject.nodes[row].pods) * 8 + len(subject.pod.spec.volumes) + 1
            found = subject.largest(-most, -count, edits_for, -count - 1)
            if found is not None:
                text = f"Let node {node.name} hold {-found} volumes of {driver.name} instead of {count}"
                if offer := subject.offer("node-capacity", text, *edits_for(found), cost=2):
                    yield offer
                    return


def drop_claims(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Do without resource claims: as few as will do."""
    claims = subject.content.get("spec", {}).get("resourceClaims") or []

    def edits_for(chosen: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for place in sorted(chosen, reverse=True):
            _drop_from_containers(draft, ("resources", "claims"), claims[place].get("name"))
            draft.remove("spec", "resourceClaims", place)
        return [draft.edit()]

    found = subject.fewest(list(range(len(claims))), edits_for)
    if found is not None:
        names = " and ".join(str(claims[place].get("name")) for place in found)
        if offer := subject.offer("claim", f"Do without the claim {names}", *edits_for(found), cost=5):
            yield offer


def shrink_claims(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Ask for fewer devices in a claim: as many as will do."""
    statuses = {item.name: item.resource_claim_name for item in subject.pod.status.resource_claim_statuses}
    for use in subject.pod.spec.resource_claims:
        name = use.resource_claim_name or statuses.get(use.name)
        target = ObjectId("ResourceClaim", subject.pod.namespace, name or "")
        if target not in subject.session.objects:
            continue
        content = subject.session.objects.content(target)
        for place, request in enumerate(((content.get("spec") or {}).get("devices") or {}).get("requests") or ()):
            count = int((request.get("exactly") or {}).get("count") or 1)
            if count < 2:
                continue

            def edits_for(wanted: int, place: int = place, target: ObjectId = target) -> list[Edit]:
                draft = Draft(target, subject.session.objects.content(target), must_replace=True)
                return [draft.put(("spec", "devices", "requests", place, "exactly", "count"), wanted).edit()]

            found = subject.largest(1, count, edits_for, count - 1)
            if found is not None:
                text = (
                    f"Ask for {found} instead of {count} devices in the claim {target.name}, request {request['name']}"
                )
                if offer := subject.offer("claim", text, *edits_for(found), cost=1):
                    yield offer
                    return
