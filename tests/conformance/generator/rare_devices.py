"""Rare devices: pools over several slices and nodes, partitions, conditions, unusual expressions."""

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

API = "resource.k8s.io/v1"
DRIVERS = ("gpu.example", "nic.example")
SELECTORS = (
    "device.attributes[device.driver].cores > 8",
    'device.attributes["gpu.example"].?firmware.orValue(semver("0.1.0")).isGreaterThan(semver("1.0.0"))',
    'has(device.attributes["gpu.example"].firmware)',
    '"memory" in device.capacity[device.driver]',
    '!("nope.example" in device.attributes) && !("x" in device.attributes["nope.example"])',
    "device.allowMultipleAllocations",
    "cel.bind(own, device.attributes[device.driver], has(own.numa) && own.numa == 0)",
    'device.capacity[device.driver].memory in [quantity("4096Mi"), quantity("1k")]',
)
FAILING = (
    "device.nope",
    "1",
    "device.driver ==",
    'device.attributes["nope.example"].x == 1',
    'device.attributes["gpu.example"].model',
)
POLICIES = (
    {"default": "2Gi"},
    {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]},
    {"default": "1Gi", "validRange": {"min": "512Mi", "step": "512Mi"}},
    {"default": "500m", "validRange": {"min": "250m", "step": "250m", "max": "3"}},
)


def rare_slices(dice: Dice, nodes: list[str]) -> list[Object]:
    """Make pools of several slices, each pool with a unique name."""
    count = dice.number(1, 3) if dice.wants("rareDevices") else 0
    return [piece for number in range(count) for piece in _pool(dice, f"rare-{number}", nodes)]


def rare_selector(dice: Dice) -> str | None:
    """Pick a rare expression, and sometimes one that fails."""
    if not dice.wants("rareDevices", 0.4):
        return None
    return dice.pick(FAILING) if dice.chance(0.05) else dice.pick(SELECTORS)


def _pool(dice: Dice, name: str, nodes: list[str]) -> list[Object]:
    driver, selected = dice.pick(DRIVERS), dice.chance(0.3)
    pieces, has_counters = dice.number(1, 3), dice.chance(0.4)
    total = pieces + has_counters
    reach = _reach(dice, nodes)
    pool = {"name": name, "generation": 2, "resourceSliceCount": total if dice.chance(0.95) else total + 1}
    specs: list[Object] = []
    if has_counters:
        sets = [{"name": each, "counters": {"units": {"value": dice.pick(("2", "4"))}}} for each in ("a", "b")]
        specs.append(
            {"driver": driver, "pool": pool, "sharedCounters": sets, **({"allNodes": True} if selected else reach)}
        )
    for piece in range(pieces):
        devices = [_device(dice, f"d{piece}{index}", has_counters) for index in range(dice.number(0, 3))]
        if selected:
            devices = [device | _reach(dice, nodes) for device in devices]
        spec: Object = {"driver": driver, "pool": pool, "devices": devices}
        specs.append(spec | ({"perDeviceNodeSelection": True} if selected else reach))
    if dice.chance(0.1):
        # A slice of the previous generation, which is ignored.
        old = [_device(dice, "old", has_counters=False)]
        specs.append({"driver": driver, "pool": pool | {"generation": 1}, "devices": old, **reach})
    names = [f"{dice.number(0, 99)}-{name}-{number}" for number in range(len(specs))]
    return [words.thing("ResourceSlice", own, api=API, spec=spec) for own, spec in zip(names, specs, strict=True)]


def _reach(dice: Dice, nodes: list[str]) -> Object:
    term = {"matchExpressions": [{"key": words.ZONE, "operator": "In", "values": dice.some(("z1", "z2"), 1)}]}
    ways: list[Object] = [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [term]}}]
    if nodes:
        ways += [{"nodeName": dice.pick(nodes)}, {"nodeName": dice.pick(nodes)}]
    return dice.pick(ways)


def _device(dice: Dice, name: str, has_counters: bool) -> Object:
    attributes: Object = {"model": {"string": "a100"}, "cores": {"int": dice.pick((4, 16))}}
    if dice.chance(0.5):
        attributes["numa"] = {"int": dice.number(0, 1)}
    if dice.chance(0.4):
        attributes["firmware"] = {"version": dice.pick(("0.9.0", "1.0.0-rc.1", "2.1.0"))}
    device: Object = {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": dice.pick(("4Gi", "3"))}},
    }
    if dice.chance(0.3):
        device["allowMultipleAllocations"] = True
        device["capacity"]["memory"]["requestPolicy"] = dice.pick(POLICIES)
    if has_counters and dice.chance(0.8):
        draw = {"units": {"value": dice.pick(("1", "2", "3"))}}
        device["consumesCounters"] = [{"counterSet": dice.pick(("a", "b")), "counters": draw}]
    if dice.chance(0.1):
        device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    return device
