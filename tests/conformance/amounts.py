"""Amounts in the suggestions of explain, reduced by one unit: then the change must not be sufficient."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

Edit = dict[str, Any]
MORE: Final = 1
LESS: Final = -1
MIB: Final = 2**20
PLACES: Final[tuple[tuple[str, str, int], ...]] = (
    ("Pod", r"(/spec(?:/(?:initC|c)ontainers/\d+)?/resources)/(?:requests|limits)/([^/]+)", MORE),
    ("Node", r"(/status)/(?:allocatable|capacity)/([^/]+)", LESS),
    ("Pod", r"(/spec/topologySpreadConstraints/\d+)/(maxSkew)", LESS),
    ("CSINode", r"(/spec/drivers/\d+/allocatable)/(count)", LESS),
    ("ResourceClaim", r"(/spec/devices/requests/\d+/exactly)/(count)", MORE),
    ("PodGroup", r"(/spec/schedulingPolicy/gang)/(minCount)", MORE),
)
"""The paths of amounts, and the direction of their change."""


def one_unit_nearer(edit: Edit, priority: int = 0, text: str = "") -> Iterator[tuple[str, Edit]]:
    """Reduce the change of each amount of an edit by one unit; request and limit together.

    ``priority`` is the present one of the pod: a class that only lets it preempt has no other. Amounts whose unit is
    corrected according to ``text`` keep their number (1000 becomes 1000m), so they are not the largest that fit.
    """
    corrected = {match[2] for match in re.finditer(r"from (\d+)[A-Za-z]* to (\1[A-Za-z]*)\b", text)}
    if edit.get("create", {}).get("kind") == "PriorityClass" and edit["create"]["value"] > priority:
        created = {**edit["create"], "value": edit["create"]["value"] - 1}
        yield "the priority", {"create": created}
    removed = {item["path"].rpartition("/")[0] for item in edit.get("patch", ()) if item["op"] == "remove"}
    together: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for number, operation in enumerate(edit.get("patch", ())):
        for kind, pattern, direction in PLACES:
            match = re.fullmatch(pattern, operation["path"])
            if match and kind == edit["object"]["kind"] and operation["op"] != "remove":
                if operation["value"] in corrected:
                    continue
                if operation["op"] == "add" and operation["path"].rpartition("/")[0] in removed:
                    continue  # the same amount under a corrected name
                together.setdefault((match[1], match[2]), []).append((number, direction))
    for (location, name), amounts in together.items():
        changed = deepcopy(edit)
        for number, direction in amounts:
            operation = changed["patch"][number]
            operation["value"] = _stepped(name.replace("~1", "/"), operation["value"], direction)
        yield f"{location}/{name}", changed


def _stepped(name: str, amount: str | int, direction: int) -> str | int:
    if isinstance(amount, int):
        return amount + direction
    if name == "cpu":
        milli = int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000
        return f"{milli + direction}m"
    if name == "memory" or name.startswith("hugepages-"):
        size = int(amount[:-2]) * MIB if amount.endswith("Mi") else int(amount)
        page = int(name.removeprefix("hugepages-")[:-2]) if name != "memory" else 1
        return str(size + direction * page * MIB)
    return str(int(amount) + direction)
