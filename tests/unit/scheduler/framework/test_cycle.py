"""What plugins remember during an attempt."""

import pytest

from moorage.common.errors import MoorageError, NotStored
from moorage.scheduler.framework.cycle import CycleState, StateKey

COUNT = StateKey[int]("count")
NAMED = StateKey[int]("named", missing="reading the count: not found")


def test_what_is_stored_comes_out() -> None:
    cycle = CycleState()
    cycle[COUNT] = 3
    assert (cycle[COUNT], cycle.get(COUNT), COUNT in cycle) == (3, 3, True)


def test_what_is_not_stored_is_none_or_an_error() -> None:
    cycle = CycleState()
    assert cycle.get(COUNT) is None
    with pytest.raises(NotStored, match=r"^nothing is stored under 'count': is the plugin enabled\b"):
        cycle[COUNT]


def test_a_key_has_its_own_words_for_that() -> None:
    with pytest.raises(LookupError, match=r"^reading the count: not found$") as raised:
        CycleState()[NAMED]
    assert isinstance(raised.value, MoorageError)


class Tally:
    def __init__(self, number: int) -> None:
        self.number = number

    def clone(self) -> "Tally":
        return Tally(self.number)


def test_a_clone_copies_what_can_be_cloned_and_shares_the_rest() -> None:
    tally, names = StateKey[Tally]("tally"), StateKey[list[str]]("names")
    cycle = CycleState()
    cycle[tally], cycle[names] = Tally(1), ["a"]
    copy = cycle.clone()
    copy[tally].number = 2
    copy[names].append("b")
    assert (cycle[tally].number, cycle[names]) == (1, ["a", "b"])
