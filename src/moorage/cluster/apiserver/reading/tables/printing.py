"""Objects as a Table: the columns of each resource, and the cells of an object."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import Cell, Column, age, columns
from moorage.cluster.apiserver.reading.tables.cluster_objects import CLUSTER_OBJECTS
from moorage.cluster.apiserver.reading.tables.server_settings import SERVER_SETTINGS
from moorage.cluster.apiserver.reading.tables.workload_tables import WORKLOADS
from moorage.kube.api.struct import Data

_STEP: Final = re.compile(r"\['([^']+)'\]|\[([0-9]{1,9})\]|([^.\[\]]+)")
_TABLES: Final = {**WORKLOADS, **CLUSTER_OBJECTS, **SERVER_SETTINGS}
_NAME_AND_AGE: Final = columns("Name", "Age")


class Printer:
    """Prints objects of a resource as a Table."""

    def __init__(self, all_columns: Sequence[Column], now: Callable[[], float]) -> None:
        self._all_columns = all_columns
        self._now = now

    @property
    def columns(self) -> list[Column]:
        """The columns with a name. A cell may have none."""
        return [column for column in self._all_columns if column.name]

    def cells(self, obj: Data, now: float) -> list[Any]:
        """Return the cells of an object."""
        return [column.cell(obj, now) for column in self._all_columns]

    def table(self, objects: Iterable[Data], meta: Data, include: str) -> Data:
        """Write objects as a Table. ``include`` selects the part of the object that a row contains."""
        now = self._now()
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": [column.definition() for column in self.columns],
            "rows": [{"cells": self.cells(obj, now), "object": _select_included(obj, include)} for obj in objects],
        }


def _select_included(obj: Data, include: str) -> Data | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def select_printer(storage: str, now: Callable[[], float], custom: Iterable[Mapping[str, Any]] = ()) -> Printer:
    """Return how objects of a resource are printed. ``custom`` are a definition's additionalPrinterColumns."""
    if builtin := _TABLES.get(storage):
        return Printer(builtin, now)
    if not custom:
        return Printer(_NAME_AND_AGE, now)
    own = [
        Column(str(item.get("name", "")), _custom_cell(item), str(item.get("type", "string")), "", priority)
        for item in custom
        for priority in [int(item.get("priority") or 0)]
        if isinstance(item.get("jsonPath"), str)
    ]
    return Printer((*columns("Name"), *own), now)


def _custom_cell(column: Mapping[str, Any]) -> Cell:
    """Return a cell at a JSON path of fields (``.a.b``, ``['a.b']``) and indexes (``[0]``)."""
    steps = _STEP.findall(column["jsonPath"])

    def cell(data: Any, now: float) -> Any:
        for quoted, index, name in steps:
            if index and isinstance(data, list):
                data = data[int(index)] if int(index) < len(data) else None
            else:
                data = data.get(quoted or name) if isinstance(data, dict) else None
        if column.get("type") == "date":
            return age(data if isinstance(data, str) else None, now)
        return data if isinstance(data, str | int | float) or data is None else str(data)

    return cell
