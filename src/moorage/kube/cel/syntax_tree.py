"""The syntax tree of a CEL expression, parsed from cel-cpp's serialization (the message cel.expr.ParsedExpr)."""

from msgspec import Struct

Fields = dict[int, list[bytes]]


class Literal(Struct, frozen=True):
    """A constant. Only strings and bytes have a text."""

    text: bytes = b""


class Name(Struct, frozen=True):
    """A variable."""

    name: str


class Select(Struct, frozen=True):
    """A field of a value, or a ``has`` test."""

    operand: "Expression"
    is_test: bool
    field: str = ""


class Call(Struct, frozen=True):
    """A function or an operator. The receiver of a method is its first argument."""

    function: str
    arguments: "tuple[Expression, ...]"


class ListNode(Struct, frozen=True):
    """A list literal."""

    items: "tuple[Expression, ...]"


class MapNode(Struct, frozen=True):
    """A map literal."""

    entries: "tuple[tuple[Expression, Expression], ...]"


class Fold(Struct, frozen=True):
    """An expanded macro: a loop that folds the entries of a list or the keys of a map into one result."""

    variable: str
    second: str
    source: "Expression"
    result_name: str
    start: "Expression"
    condition: "Expression"
    step: "Expression"
    result: "Expression"


Expression = Literal | Name | Select | Call | ListNode | MapNode | Fold


def read_tree(serialized: bytes) -> Expression:
    """Parse a serialized expression."""
    # The expression is in a ParsedExpr, which is in a google.protobuf.Any.
    return _node(_bytes(_fields(_bytes(_fields(serialized), 2)), 2))


def _node(content: bytes) -> Expression:
    fields = _fields(content)
    if 4 in fields:
        return Name(_text(_fields(_bytes(fields, 4)), 1))
    if 5 in fields:
        select = _fields(_bytes(fields, 5))
        return Select(_node(_bytes(select, 1)), 3 in select, _text(select, 2))
    if 6 in fields:
        call = _fields(_bytes(fields, 6))
        return Call(_text(call, 2), tuple(_node(part) for number in (1, 3) for part in call.get(number, ())))
    if 7 in fields:
        return ListNode(tuple(_node(item) for item in _fields(_bytes(fields, 7)).get(1, ())))
    if 8 in fields:
        entries = (_fields(entry) for entry in _fields(_bytes(fields, 8)).get(2, ()))
        return MapNode(tuple((_node(_bytes(entry, 3)), _node(_bytes(entry, 4))) for entry in entries))
    if 9 in fields:
        return _fold(_fields(_bytes(fields, 9)))
    constant = _fields(_bytes(fields, 3))
    return Literal(_bytes(constant, 6) or _bytes(constant, 7))


def _fold(fold: Fields) -> Fold:
    return Fold(
        variable=_text(fold, 1),
        second=_text(fold, 8),
        source=_node(_bytes(fold, 2)),
        result_name=_text(fold, 3),
        start=_node(_bytes(fold, 4)),
        condition=_node(_bytes(fold, 5)),
        step=_node(_bytes(fold, 6)),
        result=_node(_bytes(fold, 7)),
    )


def _bytes(fields: Fields, number: int) -> bytes:
    return fields[number][-1] if number in fields else b""


def _text(fields: Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _fields(content: bytes) -> Fields:
    """Parse a protobuf message: field contents by number; numeric fields only record their presence."""
    fields: Fields = {}
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, kind = key >> 3, key & 7
        if kind == 2:
            length, position = _varint(content, position)
            fields.setdefault(number, []).append(content[position : position + length])
            position += length
        elif kind == 0:
            _, position = _varint(content, position)
            fields.setdefault(number, []).append(b"")
        else:
            position += 8 if kind == 1 else 4
            fields.setdefault(number, []).append(b"")
    return fields


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
