"""Statuses that are built as in Go raise with the line to write."""

from typing import Any

import pytest

from moorage.scheduler.framework.status import Code, Status

LINES: dict[str, tuple[tuple[Any, ...], str]] = {
    "success as a number": ((0,), "write `return None` for success"),
    "success as a name": (("Success",), "write `return None` for success"),
    "error as a number": ((1, ("lost",)), "write Status.error('why'), or raise an exception"),
    "unresolvable as a number": ((3,), "write Status.unresolvable('why')"),
    "wait as a number": ((4,), "write `return Wait(seconds)` in permit"),
    "skip as a name": (("Skip",), "write Status.skip()"),
    "a reason for a code": (("no room",), "not the str 'no room': write Status.unschedulable('why')"),
    "one text for the reasons": ((Code.UNSCHEDULABLE, "no room"), "not a str: write Status.unschedulable('why')"),
    "a list of reasons": ((Code.PENDING, ["no room"]), "not a list: write Status.pending('why')"),
    "a number as reason": ((Code.ERROR, (3,)), "a reason must be a string, not int"),
}


@pytest.mark.parametrize(("arguments", "message"), LINES.values(), ids=LINES)
def test_status_of_go_raises_with_the_line_to_write(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        Status(*arguments)
    assert message in str(raised.value)
