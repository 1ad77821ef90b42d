"""CSV and JSON Lines files, read line by line; errors contain file, line and column."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError, did_you_mean
from moorage.lab.amounts import MOST

T = TypeVar("T")
_BYTE: Final = re.compile(r"\(byte (\d+)\)")


class CsvLine(Struct, frozen=True):
    """One line of a CSV file as texts by column."""

    place: str
    """File and line, for messages."""
    columns: Sequence[str]
    cells: dict[str, str]

    def at(self, column: str) -> str:
        """Name the place of a cell: file, line and column."""
        number = self.columns.index(column) + 1 if column in self.columns else 0
        return f"{self.place}, column {number} ({column})"

    def text(self, column: str, default: str = "") -> str:
        """Return a cell; a default where the file has no such column or nothing is in it."""
        return self.cells.get(column, "").strip() or default

    def number(
        self, column: str, default: float | None = None, *, least: float = 0.0, most: float = float(MOST)
    ) -> float:
        """Return a cell as a number between two; without a default there has to be one."""
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
            raise InputError(self.at(column), f"{text!r} is more than {most:,.0f}", hint="write less")
        problem = f"{text!r} is not a number of at least {least:g}" if text else "there is no number"
        raise InputError(self.at(column), problem, hint="write one, such as 1500")

    def integer(self, column: str, default: int | None = None, *, least: int = 0, most: int = MOST) -> int:
        """Return a cell as a whole number between two."""
        number = self.number(column, default, least=least, most=most)
        if number != int(number):
            raise InputError(
                self.at(column), f"{self.text(column)!r} is not a whole number", hint="leave the fraction out"
            )
        return int(number)


def open_text(path: Path) -> TextIO:
    """Open a file of text; InputError if that cannot be done."""
    try:
        return path.open(encoding="utf-8-sig", newline="")
    except FileNotFoundError as error:
        raise InputError(str(path), "file not found") from error
    except OSError as error:
        raise InputError(str(path), f"the file cannot be read: {error.strerror}") from error


def _not_text(path: Path) -> InputError:
    """Return the position of the first invalid byte; a text reader only knows the position in its buffer."""
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line, column = content.count(b"\n", 0, error.start) + 1, error.start - content.rfind(b"\n", 0, error.start)
        return InputError(f"{path}, line {line}, column {column}", "this is not UTF-8 text", hint="save it as UTF-8")
    return InputError(str(path), "this is not UTF-8 text", hint="save it as UTF-8")


def read_csv(path: Path, required: Sequence[str], columns: Sequence[str]) -> Iterator[CsvLine]:
    """Read a CSV file with a header; columns that are not known are refused if they look like a known one."""
    with open_text(path) as file:
        try:
            yield from _csv_lines(path, file, required, columns)
        except UnicodeDecodeError as error:
            raise _not_text(path) from error


def _csv_lines(path: Path, file: TextIO, required: Sequence[str], known_columns: Sequence[str]) -> Iterator[CsvLine]:
    reader = csv.reader(file, strict=True)
    try:
        columns = [name.strip() for name in next(reader, [])]
        _check_header(path, columns, required, known_columns)
        for cells in reader:
            if not cells:
                continue
            line_path = f"{path}, line {reader.line_num}"
            if len(cells) != len(columns):
                problem = f"{len(cells)} columns where the header has {len(columns)}"
                raise InputError(f"{line_path}, column {min(len(cells), len(columns)) + 1}", problem)
            yield CsvLine(line_path, columns, dict(zip(columns, cells, strict=True)))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}, column 1", f"this is not CSV: {error}") from error


def with_own_names(lines: Iterable[CsvLine], column: str, kind: str) -> Iterator[CsvLine]:
    """Yield lines with unique names in a column; raise InputError at the first duplicate."""
    first_places: dict[str, str] = {}
    for line in lines:
        name = line.text(column)
        if not name:
            raise InputError(line.at(column), f"the {kind} has no name")
        if name in first_places:
            raise named_twice(line.at(column), kind, name, first_places[name])
        first_places[name] = line.place
        yield line


def named_twice(where: str, kind: str, name: str, first_place: str) -> InputError:
    """Report a duplicate name with the place of the first one."""
    problem = f"there are two {kind}s named {name!r}"
    return InputError(where, problem, hint=f"name one of them differently; the other is at {first_place}")


def _check_header(path: Path, columns: Sequence[str], required: Sequence[str], known_columns: Sequence[str]) -> None:
    if not any(columns):
        hint = f"the first line names the columns: {', '.join(required)}"
        raise InputError(f"{path}, line 1, column 1", "there is nothing in the file", hint=hint)
    for name in required:
        if name not in columns:
            column_names = ", ".join(columns) or "nothing"
            hint = f"the first line names the columns: {', '.join(required)}"
            raise InputError(
                f"{path}, line 1, column 1", f"there is no column {name!r} among {column_names}", hint=hint
            )
    for number, name in enumerate(columns, start=1):
        if name in known_columns and name in columns[: number - 1]:
            raise InputError(f"{path}, line 1, column {number}", f"there are two columns {name!r}", hint="drop one")
        if name not in known_columns and (
            hint := did_you_mean(name, [item for item in known_columns if item not in columns])
        ):
            raise InputError(f"{path}, line 1, column {number}", f"there is no column {name!r}", hint=hint)


def read_json_lines(path: Path, kind: Any) -> Iterator[tuple[str, Any]]:
    """Read a JSON object of each line as one of some structs, with its place; empty lines are passed over."""
    decoder = msgspec.json.Decoder(kind)
    with open_text(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    location = f"{path}, line {number}"
                    yield location, decode_line(decoder, line, location)
        except UnicodeDecodeError as error:
            raise _not_text(path) from error


def decode_line(decoder: msgspec.json.Decoder[T], line: str, location: str) -> T:
    """Decode one line; InputError names the column at which it breaks."""
    try:
        return decoder.decode(line.encode())
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").lstrip(".")
        raise InputError(
            f"{location}, column {column_of(line, field, text)}", f"{text}{f' ({field})' if field else ''}"
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        match = _BYTE.search(str(error))
        column = int(match[1]) + 1 if match else len(line.rstrip()) + 1
        raise InputError(
            f"{location}, column {column}", f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}"
        ) from error


def column_of(line: str, field: str, text: str = "") -> int:
    """Return the position of the invalid field in a line; the start if it is unknown."""
    unknown = re.search(r"unknown field `(.+)`", text)
    name = unknown[1] if unknown else re.split(r"[.\[]", field)[0]
    at = line.find(f'"{name}"') if name else -1
    return at + 1 if at >= 0 else 1
