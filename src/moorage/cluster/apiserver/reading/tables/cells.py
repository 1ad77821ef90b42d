"""Columns of tables, and the cells of an object: field paths, ages and images.

A column is a text such as ``Status*: status.phase|Unknown``: its name, an asterisk if only ``-o wide`` shows it, the
path of the cell, and the default, which is ``<none>`` if it is omitted. ``a.b,c`` are alternative paths, and ``@a.b``
shows the age of a time. Other columns are a name and a function of the object and the time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moorage.kube.api.meta import parse_time
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find

Cell = Callable[[Data, float], Any]
COMMON: Final = {
    "Name": "metadata.name",
    "Age": "@metadata.creationTimestamp",
    "Created At": "metadata.creationTimestamp|",
}
"""The paths of columns that are given by name only."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Those of a priority above 0 are shown by ``-o wide`` only."""

    name: str
    cell: Cell
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


def columns(*described: str | tuple[str, Cell]) -> tuple[Column, ...]:
    """Return the described columns. See the module docstring."""
    result = []
    for item in described:
        title, path = item.partition(": ")[::2] if isinstance(item, str) else item
        name = title.rstrip("*")
        cell = _path_cell(path or COMMON[name]) if isinstance(path, str) else path
        column_format = "name" if name == "Name" and name == title else ""
        result.append(Column(name, cell, format=column_format, priority=int(title.endswith("*"))))
    return tuple(result)


def _path_cell(description: str) -> Cell:
    path, has_default, text = description.partition("|")
    default = int(text) if text.isdecimal() else text
    is_time, paths = path.startswith("@"), path.removeprefix("@").split(",")

    def cell(data: Data, now: float) -> Any:
        value = next((value for path in paths if (value := find(data, path, None)) not in (None, "", [])), None)
        if value is None and has_default:
            return default
        return age(value, now) if is_time else format_cell(value)

    return cell


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


def format_cell(value: Any) -> Any:
    """Format a value for a cell."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "<none>"
    if isinstance(value, dict):
        return len(value)
    return value if isinstance(value, str | int | float) and value != "" else "<none>"


def joined(path: str, field: str, default: str = "") -> Cell:
    """Return a cell with one field of each item of a list."""
    return lambda data, _: ",".join(str(item.get(field, "")) for item in list_items(data, path)) or default


def count(path: str) -> Cell:
    """Return a cell with the number of items of a list."""
    return lambda data, _: len(list_items(data, path))


def ratio(part: str, total: str) -> Cell:
    """Return a cell such as ``2/3`` with two numbers."""
    return lambda data, _: f"{find(data, part, 0)}/{find(data, total, 0)}"


def list_items(data: Data, path: str) -> list[Data]:
    """Return the mappings in a list. Some kinds are stored without validation, so it may contain anything."""
    items = find(data, path, [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def selector(path: str = "spec.selector") -> Cell:
    """Return a cell with a selector or with labels."""

    def cell(data: Data, _: float) -> str:
        selector_data = find(data, path, {})
        labels = selector_data.get("matchLabels", selector_data)
        return ",".join(f"{key}={text}" for key, text in sorted(labels.items()) if isinstance(text, str)) or "<none>"

    return cell


def access_modes(path: str) -> Cell:
    """Return a cell with abbreviated access modes."""
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return lambda data, _: ",".join(short.get(mode, mode) for mode in find(data, path, []))
