"""Devices that the pods of a group share: claims of a group, which all or some of its pods use."""

from tests.conformance.generator.devices import hold_device, make_claim
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object


def equip(dice: Dice, groups: list[Object], pods: list[Object], objects: list[Object]) -> list[Object]:
    """Add claims to groups and their pods; return the claims."""
    slices = [obj for obj in objects if obj["kind"] == "ResourceSlice" and obj["spec"].get("devices")]
    created = []
    for group in groups:
        if group["kind"] == "PodGroup" and dice.chance(0.7):
            members = [pod for pod in pods if _is_member(pod, group)]
            created += [_share(dice, group, members, name, slices) for name in ("g0", "g1")[: dice.pick((1, 1, 1, 2))]]
    return created


def _is_member(pod: Object, group: Object) -> bool:
    name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return name == group["metadata"]["name"] and _namespace(pod) == _namespace(group)


def _namespace(obj: Object) -> str:
    namespace: str = obj["metadata"].get("namespace", "default")
    return namespace


def _share(dice: Dice, group: Object, members: list[Object], name: str, slices: list[Object]) -> Object:
    metadata = group["metadata"]
    metadata.setdefault("uid", f"group-{metadata['name']}-uid")
    claim = make_claim(dice, f"{metadata['name']}-{name}", _namespace(group))
    claim_name = claim["metadata"]["name"]
    by_template = dice.chance(0.5)
    entry = {"name": name, "resourceClaimTemplateName": "template"} if by_template else {"name": name}
    if not by_template:
        entry["resourceClaimName"] = claim_name
    group["spec"].setdefault("resourceClaims", []).append(entry)
    if by_template:
        _own(dice, claim, group, name)
    if dice.chance(0.3):
        hold_device(dice, claim, slices)
        _reserve(dice, claim, group, members)
    for pod in members:
        if "nodeName" in pod["spec"]:
            continue
        _ask_for_nothing_by_name(pod)
        # Under another name, the claim belongs to the pod alone.
        spec = {**entry, "name": "mine"} if dice.chance(0.06) else dict(entry)
        pod["spec"].setdefault("resourceClaims", []).append(spec)
        if by_template and not dice.chance(0.03):
            status = {"name": spec["name"], "resourceClaimName": claim_name}
            pod.setdefault("status", {}).setdefault("resourceClaimStatuses", []).append(status)
    return claim


def _ask_for_nothing_by_name(pod: Object) -> None:
    """Leave no devices after shared ones: kube-scheduler confuses them (docs/parity.md)."""
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        limits = container.get("resources", {}).get("limits", {})
        for name in [name for name in limits if name.startswith(("example.com/", "deviceclass."))]:
            del limits[name]


def _own(dice: Dice, claim: Object, group: Object, name: str) -> None:
    """Make a claim for its group; sometimes for another one."""
    metadata = group["metadata"]
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "controller": True}
    owner["name"] = metadata["name"] if not dice.chance(0.04) else "another"
    claim["metadata"]["ownerReferences"] = [{**owner, "uid": metadata["uid"]}]
    report = {"name": name, "resourceClaimName": claim["metadata"]["name"]}
    group.setdefault("status", {}).setdefault("resourceClaimStatuses", []).append(report)


def _reserve(dice: Dice, claim: Object, group: Object, members: list[Object]) -> None:
    """Reserve an allocated claim for its group, for a pod, or not reserve it."""
    metadata = group["metadata"]
    complete = {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    users: list[Object | None] = [
        None,
        complete,
        complete,
        {"resource": "pods", "name": "stranger", "uid": "another-uid"},
    ]
    if members:
        pod = dice.pick(members)["metadata"]
        users.append({"resource": "pods", "name": pod["name"], "uid": pod.setdefault("uid", f"pod-{pod['name']}-uid")})
    user = dice.pick(users)
    if user is not None and "status" in claim:
        claim["status"]["reservedFor"] = [user]
