"""Devices of dynamic resource allocation: correct the demands of claims, create missing claims, or request less."""

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
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId
from moorage.insight.whatif.workload_pods import make_template_claims
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.quantity import nano_value

MAX_TRIED: Final = 8
_NO_EDIT: Final[Edit | None] = None


@fix()
def correct_names(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Correct names of claims and device classes that do not exist: similar ones first."""
    objects, namespace = subject.session.objects, subject.pod.namespace
    for index, use in enumerate(subject.pod.spec.resource_claims):
        name = use.resource_claim_name or ""
        names = [target.name for target in objects.known("ResourceClaim") if target.namespace == namespace]
        if name and (intended := find_intended(name, names)):
            edit = subject.draft().put(("spec", "resourceClaims", index, "resourceClaimName"), intended).edit()
            yield ProposedChange("claim", f"Change the name of its claim from {name} to {intended}", [edit], -1)
    classes = [target.name for target in objects.known("DeviceClass")]
    for target in list_device_claims(subject):
        for path, request, label in list_requests(objects.content(target)):
            old = str(request.get("deviceClassName") or "")
            intended = find_intended(old, classes)
            for name in ([intended] if intended else classes[:MAX_TRIED]) if old not in classes else ():
                draft = Draft(target, objects.content(target), must_replace=True)
                edit = draft.put((*path, "deviceClassName"), name).edit()
                text = f"Change the device class of request {label} of the claim {target.name} from {old} to {name}"
                existing = f" (existing classes: {', '.join(classes[:MAX_TRIED])})" if len(classes) > 1 else ""
                yield ProposedChange("claim", f"{text}{existing}", [edit], -1 if intended else 1)


def name_template(subject: Subject) -> Iterator[tuple[str, str, list[Edit]]]:
    """Correct the name of a claim template that does not exist, or create it; with the claims that follow."""
    objects, session, namespace = subject.session.objects, subject.session, subject.pod.namespace
    names = [target.name for target in objects.known("ResourceClaimTemplate") if target.namespace == namespace]
    for index, use in enumerate(subject.pod.spec.resource_claims):
        name, edit = use.resource_claim_template_name, _NO_EDIT
        if not name or name in names:
            continue
        if intended := find_intended(name, names) or (names[0] if len(names) == 1 else ""):
            path = ("spec", "resourceClaims", index, "resourceClaimTemplateName")
            edit, text = subject.draft().put(path, intended).edit(), f"from {name}, which does not exist, to {intended}"
            text = f"Change the claim template of its claim {use.name} {text}"
        elif classes := objects.known("DeviceClass"):
            request = {"name": use.name, "exactly": {"deviceClassName": classes[0].name}}
            head = {"apiVersion": BY_NAME["ResourceClaimTemplate"].api_version, "kind": "ResourceClaimTemplate"}
            metadata = {"name": name, "namespace": namespace}
            edit = CreateObject({**head, "metadata": metadata, "spec": {"spec": {"devices": {"requests": [request]}}}})
            text = f"Create the claim template {name} with a request for a device of the class {classes[0].name}"
        if edit is not None:
            with session.branch():
                session.apply(*subject.base, edit)
                yield "claim", text, [edit, *make_template_claims(session, session.pod(subject.key)).edits]


@fix()
def make_claim(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Create a missing claim with a device class from which it can be allocated."""
    objects = subject.session.objects
    for use in subject.pod.spec.resource_claims:
        name = use.resource_claim_name
        if not name or ObjectId("ResourceClaim", subject.pod.namespace, name) in objects:
            continue
        for device_class in objects.known("DeviceClass")[:MAX_TRIED]:
            head: dict[str, Any] = {"apiVersion": BY_NAME["ResourceClaim"].api_version, "kind": "ResourceClaim"}
            head["metadata"] = {"name": name, "namespace": subject.pod.namespace}
            request = {"name": use.name, "exactly": {"deviceClassName": device_class.name}}
            claim = {**head, "spec": {"devices": {"requests": [request]}}}
            text = f"Create the claim {name} with a request for a device of the class {device_class.name}"
            yield ProposedChange("claim", text, [CreateObject(claim)], 1)


def list_devices(objects: Any) -> list[tuple[dict[str, Any], str]]:
    """List the published devices and their nodes."""
    return [
        (device, str(spec.get("nodeName") or ""))
        for target in objects.known("ResourceSlice")
        for spec in [objects.content(target).get("spec") or {}]
        for device in spec.get("devices") or ()
    ]


def list_capacities(objects: Any, name: str) -> list[tuple[int, str, str]]:
    """List the sizes of a capacity, with the device and its node, the largest first."""
    sizes = [
        (nano_value(capacity["value"]), str(device.get("name")), node)
        for device, node in list_devices(objects)
        for key, capacity in (device.get("capacity") or {}).items()
        if key.rpartition("/")[2] == name
    ]
    return sorted(sizes, reverse=True)


def list_requests(content: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any], str]]:
    """List the requests of a claim and their alternatives: the path, the content, and the name."""
    for index, request in enumerate(((content.get("spec") or {}).get("devices") or {}).get("requests") or ()):
        path = ("spec", "devices", "requests", index)
        if request.get("exactly"):
            yield (*path, "exactly"), request["exactly"], str(request.get("name"))
        for number, option in enumerate(request.get("firstAvailable") or ()):
            yield (*path, "firstAvailable", number), option, f"{request.get('name')}/{option.get('name')}"


@fix(limit=2)
def tolerate_devices(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the taints of a device, or tolerate them in the claims."""
    objects = subject.session.objects
    tainted = [
        (target, index, device, content["spec"].get("nodeName"))
        for target in objects.known("ResourceSlice")
        for content in [objects.content(target)]
        for index, device in enumerate((content.get("spec") or {}).get("devices") or ())
        if any(taint.get("effect") != "None" for taint in device.get("taints") or ())
    ]
    for target, index, device, node in tainted[:MAX_TRIED]:
        names = " and ".join(_taint_text(taint) for taint in device["taints"])
        draft = Draft(target, objects.content(target)).remove("spec", "devices", index, "taints")
        location = f"the device {device['name']}{f' of node {node}' if node else ''}"
        text = f"Repair {location}: its driver then removes the taint {names}"
        yield ProposedChange("claim", text, [draft.edit()], 2)
    taints = {
        (item["key"], item.get("value", ""), item["effect"]) for _, _, device, _ in tainted for item in device["taints"]
    }
    for key, value, effect in sorted(taints)[:MAX_TRIED]:
        edits: list[Edit] = []
        toleration = {"key": key, "operator": "Equal" if value else "Exists", "effect": effect}
        toleration |= {"value": value} if value else {}
        for target in list_device_claims(subject):
            draft = Draft(target, objects.content(target), must_replace=True)
            for path, _, _ in list_requests(objects.content(target)):
                draft.append((*path, "tolerations"), [toleration])
            edits.append(draft.edit())
        text = f"Tolerate the taint {_taint_text(toleration)} of devices in the claim"
        yield ProposedChange("claim", text, edits, RELUCTANT)


def _taint_text(taint: dict[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


@fix()
def drop_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest resource claims."""
    claims = subject.content.get("spec", {}).get("resourceClaims") or []

    def make_edits(selected: Sequence[int]) -> list[Edit]:
        draft = subject.draft()
        for index in sorted(selected, reverse=True):
            drop_from_containers(draft, ("resources", "claims"), claims[index].get("name"))
            draft.remove("spec", "resourceClaims", index)
        return [draft.edit()]

    removable = subject.fewest(list(range(len(claims))), make_edits)
    if removable is not None:
        names = " and ".join(str(claims[index].get("name")) for index in removable)
        yield ProposedChange("claim", f"Remove the claim {names}", make_edits(removable), LAST_RESORT)


@fix()
def loosen_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Remove the fewest device selectors and constraints."""
    paths = [
        (target, path, description)
        for target in list_device_claims(subject)
        for path, description in _demands(subject.session.objects.content(target))
    ]

    def make_edits(selected: Sequence[tuple[ObjectId, tuple[str | int, ...], str]]) -> list[Edit]:
        drafts: dict[ObjectId, Draft] = {}
        for target, path, _ in reversed(selected):
            content = subject.session.objects.content(target)
            drafts.setdefault(target, Draft(target, content, must_replace=True)).remove(*path)
        return [draft.edit() for draft in drafts.values()]

    removable = subject.fewest(paths, make_edits)
    if removable is not None:
        description = " and ".join(f"{text} of the claim {target.name}" for target, _, text in removable)
        yield ProposedChange("claim", f"Remove {description}", make_edits(removable), 2)


def list_device_claims(subject: Subject) -> Iterator[ObjectId]:
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
    for path, request, name in list_requests(content):
        if request.get("selectors"):
            yield (*path, "selectors"), f"the selectors of request {name}"
    if ((content.get("spec") or {}).get("devices") or {}).get("constraints"):
        yield ("spec", "devices", "constraints"), "the constraints"


@fix()
def shrink_claims(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Request fewer devices in a claim, as many as fit."""
    for target in list_device_claims(subject):
        content = subject.session.objects.content(target)
        for index, request in enumerate(((content.get("spec") or {}).get("devices") or {}).get("requests") or ()):
            count = int((request.get("exactly") or {}).get("count") or 1)
            if count < 2:
                continue

            def make_edits(device_count: int, index: int = index, target: ObjectId = target) -> list[Edit]:
                draft = Draft(target, subject.session.objects.content(target), must_replace=True)
                return [draft.put(("spec", "devices", "requests", index, "exactly", "count"), device_count).edit()]

            largest = subject.largest(1, count, make_edits, count - 1)
            if largest is not None:
                location = f"the request {request['name']} of the claim {target.name}"
                text = f"Request {largest} instead of {count} devices in {location}"
                yield ProposedChange("claim", text, make_edits(largest), 1)
