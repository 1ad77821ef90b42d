"""File formats of the lab: CSV, JSON lines and Parquet, and limits of numbers. Errors contain file, line and column."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TextIO, TypeVar

import msgspec
from msgspec import Meta, Struct

from moorage.common.errors import InputError, describe_mismatch, did_you_mean
from moorage.common.user_files import not_utf8, not_writable, open_file

MOST: Final = 10**12
"""Upper limit of seconds, milli-CPU and MiB. Sums of such numbers are exact."""
MOST_GPUS: Final = 1000
"""Maximum number of GPUs of a node or a pod."""
MAX_LINE: Final = 16 << 20
"""Characters of a line in a text file."""
BATCH: Final = 100_000
"""Rows of a batch of a Parquet file."""
LOWEST_PRIORITY: Final = -(2**31)

Count = Annotated[int, Meta(ge=0, le=MOST)]
GpuCount = Annotated[int, Meta(ge=0, le=MOST_GPUS)]
NodeCount = Annotated[int, Meta(ge=0, le=1_000_000)]
PodCount = Annotated[int, Meta(ge=1, le=10_000_000)]
Priority = Annotated[int, Meta(ge=LOWEST_PRIORITY, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0.0, le=float(MOST))]
Positive = Annotated[float, Meta(gt=0.0, le=float(MOST))]
Name = Annotated[str, Meta(min_length=1)]

T = TypeVar("T")
_BYTE: Final = re.compile(r"\(byte (\d+)\)")


class CsvLine(Struct, frozen=True):
    """One line of a CSV file as texts by column."""

    location: str
    """File and line, for messages."""
    columns: Sequence[str]
    cells: dict[str, str]

    def at(self, column: str) -> str:
        """Return the location of a cell: file, line and column."""
        number = self.columns.index(column) + 1 if column in self.columns else 0
        return f"{self.location}, column {number} ({column})"

    def text(self, column: str, default: str = "") -> str:
        """Return a cell; the default if the column is missing or the cell is empty."""
        return self.cells.get(column, "").strip() or default

    def number(
        self, column: str, default: float | None = None, *, least: float = 0.0, most: float = float(MOST)
    ) -> float:
        """Return a cell as a number within limits. It is required without a default."""
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = least - 1.0
        if least <= number <= most:
            return number
        if number > most:
            raise InputError(self.at(column), f"{text!r} is more than {most:,.0f}", hint="write a smaller number")
        problem = f"{text!r} is not a number of at least {least:g}" if text else "the number is missing"
        raise InputError(self.at(column), problem, hint="write a number, such as 1500")

    def integer(self, column: str, default: int | None = None, *, least: int = 0, most: int = MOST) -> int:
        """Return a cell as an integer within limits."""
        number = self.number(column, default, least=least, most=most)
        if number != int(number):
            problem = f"{self.text(column)!r} is not a whole number"
            raise InputError(self.at(column), problem, hint="remove the fraction")
        return int(number)


@contextmanager
def _open_lines(path: Path) -> Iterator[TextIO]:
    """Open a text file for line-by-line reading. Raise InputError with the position of an invalid byte."""
    with open_file(path) as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            file.seek(0)  # the text reader only has the position in its buffer
            raise not_utf8(str(path), file) from error


def _read_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file. Raise InputError for a line above the limit."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InputError(f"{path}, line {number}", f"the line is longer than {MAX_LINE >> 20} MiB")
        yield line


def read_csv(
    path: Path,
    required: Sequence[str],
    columns: Sequence[str],
    *,
    separator: str = ",",
    header: Sequence[str] = (),
) -> Iterator[CsvLine]:
    """Read a CSV file. An unknown column is rejected if its name resembles a known one.

    ``header`` has the column names of a file without them. A first line with these names is skipped.
    """
    with _open_lines(path) as file:
        reader = csv.reader(_read_lines(path, file), strict=True, delimiter=separator)
        try:
            if not header:
                header = [name.strip() for name in next(reader, [])]
            _check_header(f"{path}, line 1, column", header, required, columns)
            for cells in reader:
                if not cells or (reader.line_num == 1 and [name.strip() for name in cells] == [*header]):
                    continue
                location = f"{path}, line {reader.line_num}"
                if len(cells) != len(header):
                    problem = f"{len(cells)} columns where the header has {len(header)}"
                    raise InputError(f"{location}, column {min(len(cells), len(header)) + 1}", problem)
                yield CsvLine(location, header, dict(zip(header, cells, strict=True)))
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}, column 1", f"this is not CSV: {error}") from error


def _check_header(location: str, header: Sequence[str], required: Sequence[str], columns: Sequence[str]) -> None:
    missing_column = next((name for name in required if name not in header), None)
    if missing_column is not None:
        is_empty = not any(header)
        problem = (
            "the file is empty"
            if is_empty
            else f"missing column {missing_column!r}; the columns are {', '.join(header)}"
        )
        hint = f"the first line contains the column names: {', '.join(required)}"
        raise InputError(f"{location} 1", problem, hint=hint)
    for number, name in enumerate(header, start=1):
        if name in columns and name in header[: number - 1]:
            raise InputError(f"{location} {number}", f"there are two columns {name!r}", hint="remove one")
        unused = [column for column in columns if column not in header]
        if name not in columns and (hint := did_you_mean(name, unused)):
            raise InputError(f"{location} {number}", f"unknown column {name!r}", hint=hint)


def write_csv(path: Path, columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Write records with a header. Raise InputError if the file cannot be written."""
    with report_unwritable(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


@contextmanager
def report_unwritable(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError that names the file."""
    try:
        yield
    except OSError as error:
        raise not_writable(path, error) from error


def check_unique_names(lines: Iterable[CsvLine], column: str, kind: str) -> Iterator[CsvLine]:
    """Yield lines with unique names in a column. Raise InputError at the first duplicate."""
    locations: dict[str, str] = {}
    for line in lines:
        name = line.text(column)
        if not name:
            raise InputError(line.at(column), f"the {kind} has no name")
        if name in locations:
            raise duplicate_name(line.at(column), kind, name, locations[name])
        locations[name] = line.location
        yield line


def duplicate_name(location: str, kind: str, name: str, first: str) -> InputError:
    """Return the error for a duplicate name, with the location of the first one."""
    problem = f"there are two {kind}s named {name!r}"
    return InputError(location, problem, hint=f"rename one of them; the other is at {first}")


def read_json_lines(path: Path, kind: Any) -> Iterator[tuple[str, Any]]:
    """Decode the JSON object of each line, with its location. Empty lines are skipped."""
    decoder = msgspec.json.Decoder(kind)
    with _open_lines(path) as file:
        for number, line in enumerate(_read_lines(path, file), start=1):
            if line.strip():
                location = f"{path}, line {number}"
                yield location, decode_line(decoder, line, location)


def decode_line(decoder: msgspec.json.Decoder[T], line: str, location: str) -> T:
    """Decode one line. Raise InputError with the column of a problem."""
    try:
        return decoder.decode(line.encode())
    except msgspec.ValidationError as error:
        field, problem = describe_mismatch(error)
        column = find_column(line, field, problem)
        raise InputError(f"{location}, column {column}", f"{field}: {problem}" if field else problem) from error
    except (msgspec.DecodeError, RecursionError) as error:
        match = _BYTE.search(str(error))
        column = int(match[1]) + 1 if match else len(line.rstrip()) + 1
        problem = f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}"
        raise InputError(f"{location}, column {column}", problem) from error


def find_column(line: str, field: str, problem: str = "") -> int:
    """Return the position of the invalid field in a line; 1 if it is unknown."""
    unknown = re.search(r"unknown field '(.+)'", problem)
    name = unknown[1] if unknown else re.split(r"[.\[]", field)[0]
    return max(line.find(f'"{name}"') if name else 0, 0) + 1


def pyarrow_or_none() -> ModuleType | None:
    """Return ``pyarrow.parquet``, or ``None`` if it is not installed."""
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
    """Read a file row by row, each with its location. One batch is in memory at a time."""
    parquet = _pyarrow(path)
    number = 0
    try:
        with open_file(path) as file:
            for batch in parquet.ParquetFile(file).iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"the file cannot be read: {error}") from error


def write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows in batches. All have the same columns."""
    parquet = _pyarrow(path)
    import pyarrow as arrow

    row_iterator = iter(rows)
    table = arrow.Table.from_pylist(list(islice(row_iterator, BATCH)))
    # A column without values in the first batch may have numbers in the next.
    nulls = {arrow.null(): arrow.float64()}
    table = table.cast(arrow.schema([field.with_type(nulls.get(field.type, field.type)) for field in table.schema]))
    with parquet.ParquetWriter(path, table.schema) as writer:
        while True:
            writer.write_table(table)
            batch = list(islice(row_iterator, BATCH))
            if not batch:
                return
            table = arrow.Table.from_pylist(batch, schema=table.schema)


def convert_to_parquet(lines: Path, path: Path, *, has_objects: bool = False) -> None:
    """Convert a file of JSON lines, column by column: rows as Python objects would take gigabytes.

    pyarrow cannot combine blocks whose objects have different fields: such a file is one block.
    """
    parquet = _pyarrow(path)
    import pyarrow.json

    settings = pyarrow.json.ReadOptions(block_size=lines.stat().st_size if has_objects else None)
    parquet.write_table(pyarrow.json.read_json(lines, settings), path)
