"""Devices: classes, slices, claims and templates, and pods that claim them."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.rare_devices import rare_selector, rare_slices
from tests.conformance.generator.words import Object

API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example", "nic.example")
MODELS = ("a100", "t4")
SELECTORS = (
    'device.driver == "gpu.example"',
    'device.attributes["gpu.example"].model == "a100"',
    'device.attributes["gpu.example"].cores > 8',
    'device.capacity["gpu.example"].memory.compareTo(quantity("8Gi")) >= 0',
    'device.attributes["gpu.example"].?model.orValue("none") != "t4"',
    "true",
)


def equip(dice: Dice, nodes: list[Object], running: list[Object], pending: list[Object]) -> list[Object]:
    """Add devices to nodes and claims to pods."""
    names = [node["metadata"]["name"] for node in nodes]
    slices = [created for name in names for created in _node_slices(dice, name)]
    if dice.chance(0.3):
        slices.append(_network_slice(dice))
    created = [*_classes(dice), *slices, *rare_slices(dice, names), *_taint_rules(dice)]
    shared = [_shared_claim(dice, f"shared-{number}", slices) for number in range(dice.number(0, 2))]
    for pod in running:
        if dice.wants("deviceClaims", 0.5):
            created += _allocated_claim(dice, pod, slices)
    for pod in pending:
        if dice.wants("deviceClaims"):
            created += _pod_claims(dice, pod, shared, slices)
        if dice.wants("deviceExtended"):
            _ask_by_name(dice, pod)
    return [*created, *shared]


def _classes(dice: Dice) -> list[Object]:
    created = []
    for name in ("gpu", "nic", "any"):
        if dice.chance(0.95):
            spec: Object = (
                {} if name == "any" else {"selectors": [{"cel": {"expression": f'device.driver == "{name}.example"'}}]}
            )
            if name == "gpu" and (dice.chance(0.2) or dice.dial("deviceExtended")):
                spec["extendedResourceName"] = "example.com/gpu"
            created.append(words.thing("DeviceClass", name, api=API, spec=spec or {"selectors": []}))
    return created


def _node_slices(dice: Dice, node: str) -> list[Object]:
    created = []
    for driver in dice.some(DRIVERS):
        pieces = dice.pick((1, 1, 2))
        # A pool with a missing slice cannot be used; upstream's choice among slices with different counts is random.
        announced = pieces if dice.chance(0.97) else pieces + 1
        for number in range(pieces):
            spec: Object = {
                "driver": driver,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": announced},
                "nodeName": node,
                "devices": [_device(dice, driver, f"d{number}{index}") for index in range(dice.number(1, 3))],
            }
            if dice.chance(0.15):
                _partition(dice, spec)
            created.append(words.thing("ResourceSlice", f"{node}-{driver}-{number}", api=API, spec=spec))
    return created


def _network_slice(dice: Dice) -> Object:
    """Make devices that several nodes reach."""
    term = {"matchExpressions": [{"key": words.ZONE, "operator": "In", "values": dice.some(("z1", "z2"), 1)}]}
    reach: Object = {"allNodes": True} if dice.chance(0.5) else {"nodeSelector": {"nodeSelectorTerms": [term]}}
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "nic.example",
        "pool": pool,
        "devices": [_device(dice, "nic.example", f"x{n}") for n in range(2)],
        **reach,
    }
    return words.thing("ResourceSlice", "fabric", api=API, spec=spec)


def _device(dice: Dice, driver: str, name: str) -> Object:
    device: Object = {
        "name": name,
        "attributes": {"model": {"string": dice.pick(MODELS)}, "cores": {"int": dice.pick((4, 16))}},
    }
    if dice.chance(0.6):
        device["attributes"]["numa"] = {"int": dice.number(0, 1)}
    device["capacity"] = {"memory": {"value": dice.pick(("4Gi", "16Gi"))}}
    if dice.wants("deviceTaints", 0.4):
        device["taints"] = [
            {"key": "health", "value": dice.pick(("bad", "")), "effect": dice.pick(("NoSchedule", "NoExecute"))}
        ]
    if dice.wants("sharedDevices", 0.5):
        device["allowMultipleAllocations"] = True
        if dice.chance(0.5):
            device["capacity"]["memory"]["requestPolicy"] = {
                "default": "1Gi",
                "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"},
            }
    return device


def _partition(dice: Dice, spec: Object) -> None:
    """Let the devices of a slice use one counter set, which is in a slice of the same pool."""
    spec["pool"]["resourceSliceCount"] = 1
    spec["pool"]["name"] += f"-{spec['driver']}-parts-{dice.number(0, 10**6)}"
    for device in spec["devices"]:
        device.pop("allowMultipleAllocations", None)
        device["consumesCounters"] = [{"counterSet": "whole", "counters": {"units": {"value": str(dice.number(1, 3))}}}]
    spec["sharedCounters"] = [{"name": "whole", "counters": {"units": {"value": "4"}}}]


def _taint_rules(dice: Dice) -> list[Object]:
    if not dice.wants("deviceTaints", 0.4):
        return []
    selector = {"driver": dice.pick(DRIVERS)} if dice.chance(0.7) else {"device": "d00"}
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    return [words.thing("DeviceTaintRule", "maintenance", api=API, spec={"deviceSelector": selector, "taint": taint})]


def _claim_spec(dice: Dice) -> Object:
    requests = [_request(dice, f"r{number}") for number in range(dice.pick((1, 1, 2)))]
    devices: Object = {"requests": requests}
    if dice.chance(0.2):
        kind = dice.pick(("matchAttribute", "distinctAttribute"))
        devices["constraints"] = [{kind: dice.pick(("gpu.example/numa", "gpu.example/model"))}]
    return {"devices": devices}


def _request(dice: Dice, name: str) -> Object:
    if dice.chance(0.1) or dice.wants("alternatives"):
        options = [{"name": f"s{number}", **_wanted(dice)} for number in range(dice.number(1, 3))]
        return {"name": name, "firstAvailable": options}
    exactly = _wanted(dice)
    if dice.chance(0.05):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _wanted(dice: Dice) -> Object:
    spec: Object = {"deviceClassName": dice.pick(("gpu", "gpu", "gpu", "nic", "any"))}
    if dice.chance(0.35):
        spec["selectors"] = [
            {"cel": {"expression": dice.pick(SELECTORS[:1] if spec["deviceClassName"] != "gpu" else SELECTORS)}}
        ]
    if (rare := rare_selector(dice)) is not None:
        spec["selectors"] = [*spec.get("selectors", ()), {"cel": {"expression": rare}}]
    if dice.chance(0.3):
        spec |= dice.pick(({"allocationMode": "All"}, {"allocationMode": "ExactCount", "count": 2}))
    if dice.chance(0.3):
        spec["tolerations"] = [
            dice.pick(({"operator": "Exists"}, {"key": "health", "operator": "Equal", "value": "bad"}))
        ]
    if dice.wants("sharedDevices", 0.3):
        spec["capacity"] = {"requests": {"memory": dice.pick(("500Mi", "2Gi", "3Gi", "20Gi"))}}
    return spec


def make_claim(dice: Dice, name: str, namespace: str) -> Object:
    return words.thing(
        "ResourceClaim",
        name,
        api=API,
        namespace=namespace,
        metadata={"uid": f"{namespace}-{name}-uid"},
        spec=_claim_spec(dice),
    )


def _shared_claim(dice: Dice, name: str, slices: list[Object]) -> Object:
    """Make a claim that several pods may use; an allocated one without users ties them to a node."""
    claim = make_claim(dice, name, "default")
    if dice.wants("heldDevices"):
        hold_device(dice, claim, slices)
    return claim


def hold_device(dice: Dice, claim: Object, slices: list[Object]) -> None:
    """Let a claim have a device of some node, possibly one that is not ready."""
    local = [piece for piece in slices if "nodeName" in piece["spec"]]
    if not local:
        return
    claim["spec"] = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}}
    piece = dice.pick(local)["spec"]
    claim["status"] = {"allocation": _allocation(piece, dice.pick(piece["devices"])["name"])}
    if dice.chance(0.4):
        _await_conditions(dice, claim["status"])


def _await_conditions(dice: Dice, status: Object) -> None:
    """Let a device need preparation: in time, too late, done, or failed."""
    allocation = status["allocation"]
    result = allocation["devices"]["results"][0]
    result |= {"bindingConditions": ["ready", "linked"][: dice.number(1, 2)], "bindingFailureConditions": ["failed"]}
    if dice.chance(0.8):
        allocation["allocationTimestamp"] = dice.pick(("2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"))
    conditions = [
        {"type": kind, "status": dice.pick(("True", "True", "False")), "reason": "Told", "message": 'it "says" so'}
        for kind in dice.some(("ready", "linked", "failed"), 0, 2)
    ]
    if conditions or dice.chance(0.5):
        existing = {key: result[key] for key in ("driver", "pool", "device")}
        status["devices"] = [{**existing, "conditions": conditions}]


def _ask_by_name(dice: Dice, pod: Object) -> None:
    """Request devices as an extended resource: by the resource name in a class, or by the name of the class."""
    container = dice.pick(pod["spec"]["containers"])
    name = dice.pick(
        ("example.com/gpu", "deviceclass.resource.kubernetes.io/nic", "deviceclass.resource.kubernetes.io/gone")
    )
    container.setdefault("resources", {}).setdefault("limits", {})[name] = str(dice.number(0, 2))


def _allocation(piece: Object, device: str) -> Object:
    result = {"request": "r0", "driver": piece["driver"], "pool": piece["pool"]["name"], "device": device}
    field = {"key": "metadata.name", "operator": "In", "values": [piece["nodeName"]]}
    return {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def _pod_claims(dice: Dice, pod: Object, shared: list[Object], slices: list[Object]) -> list[Object]:
    """Let a pod claim devices: by separate claims, a shared claim, or a template."""
    namespace = pod["metadata"].get("namespace", "default")
    name = f"{pod['metadata']['name']}-own"
    way = "own" if dice.wants("heldDevices", 0.5) else dice.pick(("own", "own", "shared", "template", "missing"))
    if way == "shared" and shared and namespace == "default":
        pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": dice.pick(shared)["metadata"]["name"]}]
        return []
    if way == "missing":
        if dice.chance(0.2):
            pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "gone"}]
        return []
    if way == "template":
        return _template_claim(dice, pod, name, namespace)
    claims = [
        _own_claim(dice, f"{name}{suffix}", pod, slices) for suffix in (("", "-2") if dice.chance(0.2) else ("",))
    ]
    pod["spec"]["resourceClaims"] = [
        {"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]} for number, claim in enumerate(claims)
    ]
    return claims


def _own_claim(dice: Dice, name: str, pod: Object, slices: list[Object]) -> Object:
    """Make a claim for one pod; an earlier attempt may have left it allocated, with or without its reservation."""
    metadata = pod["metadata"]
    claim = make_claim(dice, name, metadata.get("namespace", "default"))
    if dice.wants("heldDevices", 0.7):
        hold_device(dice, claim, slices)
        user = dice.pick((None, None, metadata["name"], "somebody-else"))
        if user is not None and "status" in claim:
            metadata.setdefault("uid", f"pod-{metadata['name']}-uid")
            uid = metadata["uid"] if user == metadata["name"] else "another-uid"
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": user, "uid": uid}]
    return claim


def _template_claim(dice: Dice, pod: Object, name: str, namespace: str) -> list[Object]:
    metadata = pod["metadata"]
    metadata.setdefault("uid", f"pod-{metadata['name']}-uid")
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "template"}]
    if dice.chance(0.1):
        return []
    pod.setdefault("status", {})["resourceClaimStatuses"] = [{"name": "c", "resourceClaimName": name}]
    claim = make_claim(dice, name, namespace)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    return [claim]


def _allocated_claim(dice: Dice, pod: Object, slices: list[Object]) -> list[Object]:
    """Let a running pod hold a device of its node."""
    node = pod["spec"]["nodeName"]
    own = [piece for piece in slices if piece["spec"].get("nodeName") == node]
    if not own:
        return []
    piece = dice.pick(own)["spec"]
    device = dice.pick(piece["devices"])
    if device.get("allowMultipleAllocations"):
        return []
    metadata = pod["metadata"]
    metadata.setdefault("uid", f"pod-{metadata['name']}-uid")
    namespace = metadata.get("namespace", "default")
    claim = words.thing("ResourceClaim", f"{metadata['name']}-held", api=API, namespace=namespace)
    request = {"name": "r0", "exactly": {"deviceClassName": "any"}}
    claim["metadata"]["uid"] = f"{namespace}-{metadata['name']}-held-uid"
    claim["spec"] = {"devices": {"requests": [request]}}
    claim["status"] = {
        "allocation": _allocation(piece, device["name"]),
        "reservedFor": [{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}],
    }
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": claim["metadata"]["name"]}]
    return [claim]
