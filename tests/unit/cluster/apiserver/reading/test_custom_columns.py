"""Printer columns of custom resource definitions: fields, list indices, and missing values."""

from typing import Any

import pytest

from moorage.cluster.apiserver.reading.tables.printing import select_printer

THING = {"metadata": {"name": "n", "labels": {"a.b/c": "d"}}, "status": {"cards": [{"model": "T4"}, 3]}}
CELLS = {
    ".status.cards[0].model": "T4",
    "status.cards[1]": 3,
    ".metadata.labels['a.b/c']": "d",
    ".status.cards[2]": None,
    ".status.cards[0].clock.x": None,
    ".spec.replicas": None,
    ".status.cards[1]": 3,
}


@pytest.mark.parametrize(("path", "want"), CELLS.items())
def test_custom_column_cell(path: str, want: Any) -> None:
    printer = select_printer("things.example.org", lambda: 0.0, [{"name": "X", "type": "string", "jsonPath": path}])
    assert list(printer.cells(THING, 0.0)) == ["n", want]
