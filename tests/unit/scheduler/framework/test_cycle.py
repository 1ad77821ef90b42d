"""The state of plugins during an attempt."""

import pytest

from moorage.common.errors import MoorageError, NotStored
from moorage.scheduler.framework.cycle import CycleState, StateKey

COUNT = StateKey[int]("count")
NAMED = StateKey[int]("named", missing="reading the count: not found")


def test_stored_value_is_returned() -> None:
    cycle = CycleState()
    cycle[COUNT] = 3
    assert (cycle[COUNT], cycle.get(COUNT), COUNT in cycle) == (3, 3, True)


def test_missing_value_returns_none_or_raises() -> None:
    cycle = CycleState()
    assert cycle.get(COUNT) is None
    with pytest.raises(NotStored, match=r"^nothing is stored under 'count': is the plugin enabled\b"):
        cycle[COUNT]


def test_key_can_define_its_own_error_message() -> None:
    with pytest.raises(LookupError, match=r"^reading the count: not found$") as raised:
        CycleState()[NAMED]
    assert isinstance(raised.value, MoorageError)


class Tally:
    def __init__(self, number: int) -> None:
        self.number = number

    def clone(self) -> "Tally":
        return Tally(self.number)


def test_clone_copies_cloneable_values_and_shares_all_others() -> None:
    tally, names = StateKey[Tally]("tally"), StateKey[list[str]]("names")
    cycle = CycleState()
    cycle[tally], cycle[names] = Tally(1), ["a"]
    copy = cycle.clone()
    copy[tally].number = 2
    copy[names].append("b")
    assert (cycle[tally].number, cycle[names]) == (1, ["a", "b"])
