"""Volumes and their claims: create missing ones, change classes, or raise the limit of a node."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import (
    LAST_RESORT,
    RELUCTANT,
    Draft,
    ProposedChange,
    Subject,
    drop_from_containers,
    fix,
)
from moorage.insight.whatif.edits import CreateObject, DeleteObject, Edit, ObjectId
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

FILESYSTEM: Final = "Filesystem"
WAITS: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
AVAILABLE: Final = "Available"
RELEASED: Final = "Released"
BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes"}
"""The annotation of a claim that the volume controller has bound."""
MAX_NODES: Final = 8


@fix()
def drop_volumes(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest volumes."""
    volumes = subject.content.get("spec", {}).get("volumes") or []
    indexes = [index for index, volume in enumerate(subject.pod.spec.volumes) if not volume.is_plain]

    def make_edits(selected: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for index in sorted(selected, reverse=True):
            name = volumes[index].get("name")
            drop_from_containers(draft, ("volumeMounts",), name)
            drop_from_containers(draft, ("volumeDevices",), name)
            draft.remove("spec", "volumes", index)
        return [draft.edit()]

    removable = subject.fewest(indexes, make_edits)
    if removable is not None:
        names = " and ".join(str(volumes[index].get("name")) for index in removable)
        yield ProposedChange("volume", f"Remove the volume {names}", make_edits(removable), 2 * LAST_RESORT)


@fix()
def correct_names(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Correct the name of a claim that does not exist and is probably misspelt."""
    claims = subject.session.objects.known("PersistentVolumeClaim")
    names = [target.name for target in claims if target.namespace == subject.pod.namespace]
    for index, volume in enumerate(subject.pod.spec.volumes):
        source = volume.persistent_volume_claim
        if source is not None and (intended := find_intended(source.claim_name, names)):
            path = ("spec", "volumes", index, "persistentVolumeClaim", "claimName")
            text = f"Change the claim of the volume {volume.name} from {source.claim_name} to {intended}"
            yield ProposedChange("claim", text, [subject.draft().put(path, intended).edit()], -1)


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
def correct_class(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Correct the class of a claim to that of a free volume, and bind them."""
    volumes = [item for item in subject.session.scheduler.objects[PersistentVolume].list() if not item.spec.claim_ref]
    for claim in _unbound_claims(subject):
        old = claim.spec.storage_class_name or ""
        intended = find_intended(old, (item.spec.storage_class_name or "" for item in volumes))
        volume = next((item for item in volumes if item.spec.storage_class_name == intended), None)
        if intended and volume is not None and not subject.session.scheduler.objects[StorageClass].get(old):
            draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace, must_replace=True)
            draft.put(("spec", "storageClassName"), intended).put(("spec", "volumeName"), volume.name)
            for key, text in BOUND.items():
                draft.put(("metadata", "annotations", key), text)
            text = f"Change the storage class of the claim {claim.name} from {old} to {intended}"
            yield ProposedChange("claim", f"{text}, and use the volume {volume.name}", [draft.edit()], -1)


@fix()
def change_class(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Change the class of an unbound claim to one that creates volumes for the node of the pod."""
    for claim in _unbound_claims(subject):
        target, old = ObjectId("PersistentVolumeClaim", claim.namespace, claim.name), claim.spec.storage_class_name
        classes = [name for name in _provisioning_classes(subject) if name != old]
        intended = find_intended(old or "", classes)
        classes.sort(key=lambda name: name != intended)
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
def await_provisioner(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Repair the provisioner of a class that creates volumes immediately, and has not created that of the claim."""
    classes = subject.session.scheduler.objects[StorageClass]
    for claim in _unbound_claims(subject):
        storage_class = classes.get(claim.spec.storage_class_name or "")
        if storage_class is None or storage_class.volume_binding_mode == WAITS:
            continue
        if storage_class.provisioner not in ("", NO_PROVISIONER):
            problem = (
                f"it has not created a volume for the claim {claim.name} (see `kubectl describe pvc {claim.name}`)"
            )
            text = f"Repair the provisioner {storage_class.provisioner} of the storage class {storage_class.name}"
            yield ProposedChange("claim", f"{text}: {problem}", _bound_volume(subject, claim), 3)


@fix()
def shrink_claim(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Request as much storage as the driver of the class still has somewhere."""
    objects = subject.session.objects
    for claim in _unbound_claims(subject):
        free = {
            str(content.get("maximumVolumeSize") or content.get("capacity"))
            for target in objects.known("CSIStorageCapacity")
            for content in [objects.content(target)]
            if content.get("storageClassName") == claim.spec.storage_class_name and content.get("capacity")
        }
        requested = claim.spec.resources.requests.get("storage", 0)
        for size in sorted(free, key=nano_value, reverse=True)[:MAX_NODES]:
            if 0 < nano_value(size) < nano_value(requested):
                draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace, must_replace=True)
                edit = draft.put(("spec", "resources", "requests", "storage"), size).edit()
                text = f"Request {size} instead of {requested} in the claim {claim.name}, as much as is free"
                cost = 1 + RELUCTANT * (2 * nano_value(size) < nano_value(requested))
                yield ProposedChange("claim", text, [edit], cost)


@fix()
def allow_zone(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Allow the topology of a node in a storage class that provisions elsewhere."""
    classes = subject.session.scheduler.objects[StorageClass]
    for claim in _unbound_claims(subject):
        storage_class = classes.get(claim.spec.storage_class_name or "")
        if storage_class is None or len(storage_class.allowed_topologies) != 1:
            continue
        for row in rows[:MAX_NODES]:
            draft = subject.draft_object("StorageClass", storage_class.name, must_replace=True)
            labels, texts = subject.nodes[row].labels, list[str]()
            for number, item in enumerate(storage_class.allowed_topologies[0].match_label_expressions):
                if item.key in labels and labels[item.key] not in item.values:
                    path = ("allowedTopologies", 0, "matchLabelExpressions", number, "values")
                    draft.append(path, [labels[item.key]])
                    texts.append(f"{item.key}={labels[item.key]} in the storage class {storage_class.name}")
                    texts[-1] += f", which allows {', '.join(item.values)}"
            if texts:
                yield ProposedChange("claim", f"Allow {' and '.join(texts)}", [draft.edit()], 3)


@fix()
def recreate_claim(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Recreate a claim that is being deleted, or whose volume is lost or belongs to another claim. Its data is lost."""
    objects = subject.session.scheduler.objects
    for volume in subject.pod.spec.volumes:
        source = volume.persistent_volume_claim
        claim = objects[PersistentVolumeClaim].get(source.claim_name, subject.pod.namespace) if source else None
        if claim is None:
            continue
        name, is_deleted = claim.spec.volume_name, claim.metadata.deletion_timestamp is not None
        bound_volume = objects[PersistentVolume].find(name) if name else None
        reference = bound_volume.spec.claim_ref if bound_volume is not None else None
        is_taken = reference is not None and (reference.namespace, reference.name) != (claim.namespace, claim.name)
        if not is_deleted and not is_taken and (not name or bound_volume is not None):
            continue
        target = ObjectId("PersistentVolumeClaim", claim.namespace, claim.name)
        old = subject.session.objects.content(target)
        spec = {key: item for key, item in old["spec"].items() if key != "volumeName"}
        head = {"apiVersion": "v1", "kind": target.kind, "metadata": {"name": claim.name, "namespace": claim.namespace}}
        recreated: list[Edit] = [DeleteObject(target), CreateObject({**head, "spec": spec})]
        reason = "which is being deleted" if is_deleted else f"whose volume {name} does not exist"
        if is_taken and reference is not None and not is_deleted:
            owner = f"{reference.namespace}/{reference.name}"
            reason = f"without the volume {name}, which belongs to the claim {owner}"
        text = f"Recreate the claim {claim.name}, {reason}"
        yield ProposedChange("claim", text, recreated, 3)
        new_volume, _ = _bound_volume(subject, claim)
        new_claim = {**head, "metadata": {"name": claim.name, "namespace": claim.namespace, "annotations": BOUND}}
        new_claim["spec"] = {**spec, "volumeName": new_volume.content["metadata"]["name"]}
        yield ProposedChange(
            "claim", f"{text}, with a new volume", [recreated[0], new_volume, CreateObject(new_claim)], 3
        )


@fix()
def match_volume(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Let an unbound claim use a volume of its class: release it, or request the access modes that it offers."""
    for claim in _unbound_claims(subject):
        for volume in subject.session.scheduler.objects[PersistentVolume].list():
            if (volume.spec.storage_class_name or "") != (claim.spec.storage_class_name or ""):
                continue
            reference, modes = volume.spec.claim_ref, list(volume.spec.access_modes)
            old_claim = f"{reference.namespace}/{reference.name}" if reference is not None else ""
            if old_claim and volume.status.phase == RELEASED:
                draft = subject.draft_object("PersistentVolume", volume.name)
                edit = draft.remove("spec", "claimRef").put(("status", "phase"), AVAILABLE).edit()
                text = f"Remove spec.claimRef of the volume {volume.name}, which has data of the claim {old_claim}"
                yield ProposedChange("volume", text, [edit], 1)
            elif not old_claim and not set(claim.spec.access_modes) <= set(modes):
                draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace, must_replace=True)
                edit = draft.put(("spec", "accessModes"), modes).edit()
                requested = ", ".join(claim.spec.access_modes)
                text = f"Request the access mode {', '.join(modes)} instead of {requested} in the claim {claim.name}"
                yield ProposedChange("claim", f"{text}, as the volume {volume.name} offers", [edit], 1)
            elif not old_claim:
                yield from _request_mode(subject, claim, volume)
                yield from _select_volume(subject, claim, volume)


def _request_mode(subject: Subject, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Iterator[ProposedChange]:
    """Request the mode of a volume if the containers mount it: devices need volumes of the mode Block."""
    mode, requested = (item.spec.volume_mode or FILESYSTEM for item in (volume, claim))
    is_device = any(item.get("volumeDevices") for item in subject.content["spec"].get("containers") or ())
    if mode != requested and is_device == (mode != FILESYSTEM):
        draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace, must_replace=True)
        edit = draft.put(("spec", "volumeMode"), mode).edit()
        text = f"Request the volume mode {mode} instead of {requested} in the claim {claim.name}"
        yield ProposedChange("claim", f"{text}, as the volume {volume.name} offers", [edit], 1)


def _select_volume(
    subject: Subject, claim: PersistentVolumeClaim, volume: PersistentVolume
) -> Iterator[ProposedChange]:
    """Select the labels that a volume has."""
    selector = claim.spec.selector
    for key, old in ((selector.match_labels or {}) if selector is not None else {}).items():
        if key in volume.labels and volume.labels[key] != old:
            draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace, must_replace=True)
            edit = draft.put(("spec", "selector", "matchLabels", key), volume.labels[key]).edit()
            text = f"Change {key} from {old} to {volume.labels[key]} in the selector of the claim {claim.name}"
            yield ProposedChange("claim", f"{text}, as the volume {volume.name} has", [edit], 1)


@fix()
def make_volume(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Create a volume for an unbound claim that every node can reach."""
    classes = subject.session.scheduler.objects[StorageClass]
    for claim in _unbound_claims(subject):
        volume, bind = _bound_volume(subject, claim)
        unbound = {key: item for key, item in volume.content["spec"].items() if key != "claimRef"}
        available = CreateObject({**volume.content, "spec": unbound, "status": {"phase": AVAILABLE}})
        text = f"Create a volume for the claim {claim.name}"
        yield ProposedChange("volume", text, [available], 2)
        class_name = claim.spec.storage_class_name or ""
        is_missing = class_name and classes.get(class_name) is None
        text += f", whose storage class {class_name} does not exist" if is_missing else ""
        yield ProposedChange("volume", f"{text}, and bind them", [volume, bind], 3)


def _bound_volume(subject: Subject, claim: PersistentVolumeClaim) -> tuple[CreateObject, Edit]:
    """Return edits that create a volume for a claim and bind it, as a provisioner and the volume controller do."""
    name, number = f"{claim.name}-volume", 1
    while ObjectId("PersistentVolume", "", name) in subject.session.objects:
        name, number = f"{claim.name}-volume-{number}", number + 1
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace, "name": claim.name}
    spec: dict[str, Any] = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "1Gi")},
        "accessModes": list(claim.spec.access_modes),
        "hostPath": {"path": f"/volumes/{name}"},
        "claimRef": reference,
    }
    if claim.spec.storage_class_name:
        spec["storageClassName"] = claim.spec.storage_class_name
    if claim.spec.volume_mode:
        spec["volumeMode"] = claim.spec.volume_mode
    metadata: dict[str, Any] = {"name": name}
    if claim.spec.selector is not None and claim.spec.selector.match_labels:
        metadata["labels"] = dict(claim.spec.selector.match_labels)
    volume = CreateObject({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    draft = subject.draft_object("PersistentVolumeClaim", claim.name, claim.namespace)
    for key, text in BOUND.items():
        draft.put(("metadata", "annotations", key), text)
    return volume, draft.put(("spec", "volumeName"), name).edit()


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

            def make_edits(limit: int, index: int = index, name: str = node.name) -> list[Edit]:
                draft = subject.draft_object("CSINode", name, must_replace=True)
                return [draft.put(("spec", "drivers", index, "allocatable", "count"), limit).edit()]

            most = count + len(subject.nodes[row].pods) * 8 + len(subject.pod.spec.volumes) + 1
            limit = subject.smallest(count, most, make_edits, count + 1)
            if limit is not None:
                text = f"Raise the volume limit of {driver.name} on node {node.name} from {count} to {limit}"
                yield ProposedChange("node-capacity", text, make_edits(limit), 2)
