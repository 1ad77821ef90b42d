"""The tune section: held-out seeds and invalid settings."""

from typing import Any

import pytest

from moorage.common.errors import InputError
from moorage.lab.cluster import convert_or_explain
from moorage.lab.tuning.plan import TunePlan, check_plan

FIT = "NodeResourcesFit"
VALID: dict[str, Any] = {"minimize": "nodes.used", "weights": {FIT: {"from": 0, "to": 10}}}
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "missing objective": ({"minimize": ""}, "write maximize: MEASURE, or minimize: MEASURE"),
    "two objectives": ({"maximize": "allocation.cpu"}, "the objective is missing or ambiguous"),
    "nothing to tune": ({"weights": {}, "args": {}}, "add weights or args"),
    "no candidates": ({"candidates": 0}, "write 1 or more"),
    "held-out seed of the search": ({"heldOut": [2, 9]}, "the search also uses seed 2"),
    "no held-out seeds": ({"heldOut": 0}, "no seeds are held out"),
    "empty range": ({"weights": {FIT: {"from": 4, "to": 4}}}, "`to` must be greater than `from`"),
    "fractional weight": ({"weights": {FIT: {"from": 0.5, "to": 4}}}, "a whole number from 0 to 100"),
    "weight above 100": ({"weights": {FIT: {"from": 1, "to": 101}}}, "a whole number from 0 to 100"),
    "negative weight": ({"weights": {FIT: {"from": -1, "to": 4}}}, "a whole number from 0 to 100"),
    "single value": ({"args": {FIT: {"scoringStrategy.type": ["LeastAllocated"]}}}, "1 values leave no choice"),
    "logarithm of 0": ({"args": {FIT: {"x": {"from": 0, "to": 4, "log": True}}}}, "log needs numbers above 0"),
}


def make_plan(**changes: Any) -> TunePlan:
    return convert_or_explain({**VALID, **changes}, TunePlan, "a test")


@pytest.mark.parametrize(("changes", "problem"), INVALID.values(), ids=INVALID)
def test_invalid_settings_are_rejected(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        check_plan(make_plan(**changes), (1, 2, 3), "a test")
    assert problem in str(raised.value)


def test_valid_limits_are_accepted() -> None:
    check_plan(make_plan(weights={FIT: {"from": 0, "to": 100}}, candidates=1, heldOut=1), (1, 2, 3), "a test")


def test_held_out_seeds_follow_the_seeds_of_the_search() -> None:
    assert list(make_plan(heldOut=2).held_out_seeds((1, 7, 3))) == [8, 9]
    assert list(make_plan(heldOut=[5, 4]).held_out_seeds((1, 7, 3))) == [5, 4]
