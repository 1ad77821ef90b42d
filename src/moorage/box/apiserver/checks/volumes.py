"""The volumes of a pod."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.box.apiserver.checks.causes import duplicate, each, prohibited, required
from moorage.box.apiserver.checks.names import dns_label
from moorage.box.apiserver.refusals import Cause

Data = dict[str, Any]
_NAMES: Final = {"persistentVolumeClaim": "claimName", "configMap": "name", "hostPath": "path", "csi": "driver"}
"""The field that each sort of volume cannot do without."""


def volumes(found: list[Data], path: str) -> Iterator[Cause]:
    """Check the volumes of a pod."""
    seen: set[str] = set()
    for number, volume in enumerate(found):
        where, name = f"{path}[{number}]", volume.get("name", "")
        if not name:
            yield required(f"{where}.name")
        elif name in seen:
            yield duplicate(f"{where}.name", name)
        else:
            yield from each(f"{where}.name", name, dns_label(name))
        seen.add(name)
        yield from _source(volume, where)


def _source(volume: Data, path: str) -> Iterator[Cause]:
    sorts = [sort for sort in volume if sort != "name"]
    for sort in sorts[1:]:
        yield prohibited(f"{path}.{sort}", "may not specify more than 1 volume type")
    for sort in sorts[:1]:
        if sort in _NAMES and not volume[sort].get(_NAMES[sort]):
            yield required(f"{path}.{sort}.{_NAMES[sort]}")
