"""Numbers written as text, and how wide the numbers of objects may be."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from moorage.kube.api.integers import to_int64
from moorage.kube.api.kinds import KINDS
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, node_matcher
from moorage.kube.schema import Schema, schema_of_kind

WIDTHS = {"int32": 2**31 - 1, "intorstring": 2**31 - 1, "int64": 2**63 - 1}


@pytest.mark.parametrize(
    ("text", "number"),
    {
        "0": 0,
        "-7": -7,
        "+12": 12,
        "0" * 5000 + "5": 5,
        "000": 0,
        str(2**63 - 1): 2**63 - 1,
        str(-(2**63)): -(2**63),
        str(2**63): None,
        "9" * 5000: None,
        "": None,
        "-": None,
        " 1": None,
        "1\n": None,
        "1_0": None,
        "0x1": None,
        "1e3": None,
        "\u0661": None,
        "\u00b2": None,
    }.items(),
)
def test_text_is_read_as_go_reads_it(text: str, number: int | None) -> None:
    assert to_int64(text) == number


def test_every_number_of_an_object_is_as_wide_as_in_go() -> None:
    wrong_fields = [
        field for kind in KINDS for field in wrong(kind.type, schema_of_kind(kind.api_version, kind.name), kind.name)
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


def test_a_bound_of_thousands_of_digits_matches_nothing() -> None:
    selector = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("a", "Gt", ("9" * 5000,)),)),))
    assert not node_matcher(selector).matches({"a": "1"}, "n")
