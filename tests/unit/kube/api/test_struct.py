"""Numbers of objects are as wide as in Go."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec

from moorage.kube.api.kinds import KINDS
from moorage.kube.schema import Schema, find_kind_schema

WIDTHS = {"int32": 2**31 - 1, "intorstring": 2**31 - 1, "int64": 2**63 - 1}


def test_every_number_of_an_object_is_as_wide_as_in_go() -> None:
    wrong_fields = [
        field for kind in KINDS for field in wrong(kind.type, find_kind_schema(kind.api_version, kind.name), kind.name)
    ]
    assert not wrong_fields, "write Int32 or Int64 of moorage.kube.api.struct"


def wrong(struct: Any, schema: Schema | None, path: str, above: tuple[Any, ...] = ()) -> Iterator[str]:
    """Find the numbers of a struct that are not bounded, or not by the width of Go's."""
    hints = get_type_hints(struct, include_extras=True)
    for info in msgspec.structs.fields(struct):
        field = schema.field(info.encode_name) if schema is not None else None
        here = f"{path}.{info.encode_name}"
        for part in parts(hints[info.name]):
            if part is int:
                yield f"{here}: any number"
            elif isinstance(part, msgspec.Meta) and field is not None and part.le != WIDTHS[field.type]:
                yield f"{here}: up to {part.le}"
            elif isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in above:
                yield from wrong(part, field.schema if field is not None else None, here, (*above, struct))


def parts(hint: Any) -> Iterator[Any]:
    """Take a type apart; a number with a bound shows the bound."""
    if getattr(hint, "__metadata__", None):
        yield from hint.__metadata__
    elif get_args(hint):
        if float not in get_args(hint):  # a quantity, which has a grammar
            for part in get_args(hint):
                yield from parts(part)
    else:
        yield hint
