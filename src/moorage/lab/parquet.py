"""Parquet, where pyarrow is installed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from moorage.common.errors import InputError


def pyarrow_or_none() -> ModuleType | None:
    """Return pyarrow's Parquet, or ``None`` where it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        return None
    module: ModuleType = parquet
    return module


def _pyarrow(path: Path) -> Any:
    parquet = pyarrow_or_none()
    if parquet is None:
        raise InputError(str(path), "Parquet needs pyarrow, which is not installed", hint="pip install 'moorage[lab]'")
    return parquet


def read_parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read a file row by row, each with its place."""
    parquet = _pyarrow(path)
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"the file cannot be read: {error}") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows; all have the same columns."""
    parquet = _pyarrow(path)
    import pyarrow as arrow

    parquet.write_table(arrow.Table.from_pylist(list(rows)), path)


def convert_to_parquet(lines: Path, path: Path) -> None:
    """Turn a file of JSON lines into one of Parquet, column by column: rows as Python objects would take gigabytes."""
    parquet = _pyarrow(path)
    import pyarrow.json

    parquet.write_table(pyarrow.json.read_json(lines), path)
