"""Numbers written as text, and how wide the numbers of objects may be."""

import pytest

from moorage.kube.api.integers import to_int64


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
