"""Objects as a Table: the columns of each resource, and the cells of an object."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import Cells, Column, age, columns, plain
from moorage.cluster.apiserver.reading.tables.cluster_objects import CLUSTER_OBJECTS
from moorage.cluster.apiserver.reading.tables.server_settings import SERVER_SETTINGS
from moorage.cluster.apiserver.reading.tables.workload_tables import WORKLOADS
from moorage.kube.api.struct import Data

_STEP: Final = re.compile(r"\['([^']+)'\]|\[([0-9]{1,9})\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns, and how to fill them; cells get the object and the time."""

    columns: tuple[Column, ...]
    cells: Cells
    now: Callable[[], float]


def table(objects: Iterable[Data], printer: Printer, meta: Data, include: str) -> Data:
    """Write objects as a Table."""
    now = printer.now()
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in printer.columns],
        "rows": [{"cells": list(printer.cells(obj, now)), "object": _included(obj, include)} for obj in objects],
    }


def _included(obj: Data, include: str) -> Data | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def select_printer(storage: str, now: Callable[[], float], custom: Sequence[Mapping[str, Any]] = ()) -> Printer:
    """Return how objects of a resource are printed; ``custom`` are a definition's additionalPrinterColumns."""
    if builtin := WORKLOADS.get(storage) or CLUSTER_OBJECTS.get(storage) or SERVER_SETTINGS.get(storage):
        return Printer(*builtin, now)
    if not custom:
        return Printer(columns("Name", "Age"), plain("metadata.name", "age"), now)
    columns_with_path = [item for item in custom if isinstance(item.get("jsonPath"), str)]
    own = tuple(
        Column(str(item.get("name", "")), str(item.get("type", "string")), priority=int(item.get("priority") or 0))
        for item in columns_with_path
    )

    def cells(data: Data, moment: float) -> list[Any]:
        return [data["metadata"]["name"], *(_custom_cell(data, item, moment) for item in columns_with_path)]

    return Printer((*columns("Name"), *own), cells, now)


def _custom_cell(data: Data, column: Mapping[str, Any], now: float) -> Any:
    value = _at(data, column["jsonPath"])
    if column.get("type") == "date":
        return age(value if isinstance(value, str) else None, now)
    return value if isinstance(value, str | int | float) or value is None else str(value)


def _at(data: Any, path: str) -> Any:
    """Follow a JSON path of fields (``.a.b``, ``['a.b']``) and places (``[0]``); ``None`` if it ends nowhere."""
    for quoted, index, name in _STEP.findall(path):
        if index and isinstance(data, list):
            data = data[int(index)] if int(index) < len(data) else None
        else:
            data = data.get(quoted or name) if isinstance(data, dict) else None
    return data
