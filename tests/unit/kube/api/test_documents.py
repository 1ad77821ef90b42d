"""YAML as Kubernetes reads it, and texts that expand far beyond their length."""

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.errors import InputError
from moorage.kube.api.documents import MAX_DEPTH, parse_documents, read_documents

SCALARS: dict[str, Any] = {
    "x": "x",
    "~": None,
    "": None,
    "null": None,
    "yes": True,
    "Off": False,
    "y": True,
    "N": False,
    "'y'": "y",
    "!!str y": "y",
    "12": 12,
    "-7": -7,
    "+7": 7,
    "1_000": 1000,
    "0b101": 5,
    "0x1F": 31,
    "010": 8,
    "09": 9.0,
    "1.5": 1.5,
    ".5": 0.5,
    "1e3": 1000.0,
    "1:30": "1:30",
    "-": [None],
    "2026-01-31": "2026-01-31",
    "!!timestamp x": "x",
    "!!binary aGk=": "hi",
    "!!int '5'": 5,
    "!!float 2": 2.0,
    "18446744073709551615": 2**64 - 1,
    "99999999999999999999": 1e20,
    "9" * 5000: "9" * 5000,
    "1e999": "1e999",
    "1.2.3": "1.2.3",
}
REFUSED: dict[str, tuple[str, str]] = {
    "an invalid int": ("!!int x", "cannot decode !!str `x` as a !!int"),
    "an invalid bool": ("!!bool x", "as a !!bool"),
    "invalid bytes": ("!!binary x", "as a !!binary"),
    "no number": (".nan", "unsupported value: .nan"),
    "no end": ("-.inf", "unsupported value: -.inf"),
    "an object of Python": ("!!python/object:os.system {}", "could not determine a constructor"),
    "a custom tag": ("!mine x", "could not determine a constructor"),
    "a set": ("!!set {a}", "could not determine a constructor"),
    "a list for a key": ("? [a]\n: 1", "unhashable key"),
    "an anchor that is not there": ("*a", "unknown anchor 'a'"),
    "an anchor in itself": ("&a [*a]", "contains itself"),
    "a merge of text": ("<<: x", "map merge requires map"),
    "levels without end, in brackets": ("[" * 50_000, "exceeded max depth"),
    "levels without end, in lines": ("\n".join(f"{' ' * n}a:" for n in range(1000)), "exceeded max depth"),
    "dashes without end": ("- " * 20_000, "exceeded max depth"),
    "aliases of aliases": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "excessive aliasing",
    ),
    "merges of merges": (
        "a: &a {x: 1}\n"
        + "".join(
            f"{b}: &{b} {{{', '.join(f'{b}{n}: *{a}' for n in range(9))}, <<: *{a}}}\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "excessive aliasing",
    ),
    "a long text repeatedly": (f"a: &a {'x' * 100_000}\nb: [{'*a,' * 60}]", "excessive aliasing"),
}


def only(text: str) -> Any:
    return next(parse_documents(text)).data


@pytest.mark.parametrize("text", SCALARS)
def test_a_scalar_is_read_as_kubernetes_reads_it(text: str) -> None:
    value = only(f"a: {text}" if text != "-" else "a:\n- ")["a"]
    assert value == SCALARS[text]
    assert type(value) is type(SCALARS[text])


@pytest.mark.parametrize("name", REFUSED)
def test_unreadable_input_is_rejected_immediately(name: str) -> None:
    text, problem = REFUSED[name]
    began = time.process_time()
    with pytest.raises(InputError, match="line") as refusal:
        list(read_documents(text, source="f"))
    assert problem in str(refusal.value)
    assert time.process_time() - began < 2.0


def test_aliases_and_merge_keys_are_resolved() -> None:
    text = "base: &b {cpu: 1, memory: 2}\nmore: &m {cpu: 3, gpu: 4}\nall: {<<: [*b, *m], memory: 5}\nsame: *b\n"
    value = only(text)
    assert value["all"] == {"cpu": 1, "memory": 5, "gpu": 4}
    assert value["same"] == {"cpu": 1, "memory": 2}
    assert only("{'<<': {a: 1}}") == {"<<": {"a": 1}}


def test_a_field_given_twice_is_noted_and_the_last_one_counts() -> None:
    document = next(parse_documents("a: 1\nb:\n- {c: 1, c: 2}\na: 3\n"))
    assert document.data == {"a": 3, "b": [{"c": 2}]}
    assert [tuple(field) for field in document.repeated] == [("b[0].c", 3), ("a", 4)]


def test_nesting_depth_is_limited() -> None:
    assert only("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(yaml.YAMLError, match="max depth"):
        only("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(codec="ascii", categories=["L", "N"])),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text("abc", min_size=1), below, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_data_survives_a_round_trip_through_json(data: Any) -> None:
    import json

    assert only(json.dumps(data)) == data
