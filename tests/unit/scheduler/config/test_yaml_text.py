"""Reading and printing YAML."""

import pytest

from moorage.common.errors import ConfigError
from moorage.scheduler.config.yaml_text import dump, read_document


def test_repeated_fields_are_reported_with_their_line() -> None:
    data, repeated = read_document("a: 1\nb: {c: 1}\na: 2\n", "file")
    assert data == {"a": 2, "b": {"c": 1}}
    assert [str(error) for error in repeated] == ["a: duplicate field, repeated on line 3\n  hint: keep one of them"]


def test_json_may_be_indented_by_tabs() -> None:
    assert read_document('{\n\t"a": 1\n}', "file") == ({"a": 1}, [])
    assert read_document("", "file") == (None, [])


def test_invalid_text_is_reported_with_its_position() -> None:
    with pytest.raises(ConfigError, match=r"^file, line 2, column 1: invalid YAML"):
        read_document("a: [\n", "file")


PRINTED = {
    "a number as a text": ("1", 'a: "1"\n'),
    "a short bool": ("yes", 'a: "yes"\n'),
    "a null": ("null", 'a: "null"\n'),
    "a plain text": ("plain", "a: plain\n"),
    "lines": ("x\ny\n", "a: |\n  x\n  y\n"),
    "a list": (["x", "z"], "a:\n- x\n- z\n"),
}


@pytest.mark.parametrize(("value", "text"), PRINTED.values(), ids=PRINTED)
def test_texts_are_quoted_as_go_does(value: object, text: str) -> None:
    assert dump({"a": value}) == text


def test_equal_lists_are_printed_twice() -> None:
    shared = ["x"]
    assert dump({"a": shared, "b": shared}) == "a:\n- x\nb:\n- x\n"
