"""Cells of tables: field paths, ages and images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.kube.api.meta import parse_time
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find

Cells = Callable[[Data, float], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of a priority above 0 are shown by ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Data:
        """Write the column as the API does."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


def columns(*names: str) -> tuple[Column, ...]:
    """Return columns; a name with an asterisk is printed by ``-o wide`` only."""
    return tuple(
        Column(name.rstrip("*"), format="name" if name == "Name" else "", priority=int(name.endswith("*")))
        for name in names
    )


def age(moment: str | None, now: float) -> str:
    """Return the age of a timestamp in kubectl's format.

    >>> age("2026-01-01T00:00:00Z", parse_time("2026-01-01T00:05:30Z"))
    '5m30s'
    """
    if not moment:
        return "<unknown>"
    try:
        seconds = max(0, int(now - parse_time(moment)))
    except ValueError:
        return "<invalid>"
    return duration(seconds)


def duration(seconds: int) -> str:
    """Write a number of seconds as kubectl does: the longer, the less exact."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def created(data: Data, now: float) -> str:
    """Return the age of an object."""
    return age(data["metadata"].get("creationTimestamp"), now)


def plain(*paths: str) -> Callable[[Data, float], list[Any]]:
    """Return a function that fills cells from paths; ``age`` is the age, ``born`` the creation timestamp."""

    def cell(data: Data, path: str, now: float) -> Any:
        if path == "age":
            return created(data, now)
        return data["metadata"].get("creationTimestamp", "") if path == "born" else format_cell(find(data, path))

    return lambda data, now: [cell(data, path, now) for path in paths]


def format_cell(value: Any) -> Any:
    """Format a value for a cell."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "<none>"
    if isinstance(value, dict):
        return len(value)
    return value if isinstance(value, str | int | float) and value != "" else "<none>"


def images(data: Data, path: str = "spec.template.spec.containers") -> tuple[str, str]:
    """Return the names and images of a template's containers."""
    containers = find(data, path, [])
    return ",".join(item.get("name", "") for item in containers), ",".join(item.get("image", "") for item in containers)


def selector(data: Data, path: str = "spec.selector") -> str:
    """Return a selector as text."""
    selector_data = find(data, path, {})
    labels = selector_data.get("matchLabels", selector_data)
    return ",".join(f"{key}={text}" for key, text in sorted(labels.items()) if isinstance(text, str)) or "<none>"


def access_modes(modes: list[str]) -> str:
    """Abbreviate access modes."""
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in modes)
