"""Recorded group histories: Moorage's steps equal those of kube-scheduler."""

import pytest
from tests.conformance.compare import differences
from tests.parity.group_oracle import recorded
from tests.parity.group_replay import GroupReplay, comparable
from tests.parity.group_rows import ROWS
from tests.parity.queue_replay import Json

from moorage.testing import in_virtual_time

RECORDED = recorded()


def decided(told: Json) -> list[Json]:
    """Take the decisions out of a report."""
    found = [told.pop("decision")] if "decision" in told else told.pop("decisions", [])
    return [*found, told.pop("group")] if "group" in told else found


def test_all_rows_are_recorded() -> None:
    assert list(RECORDED) == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
@in_virtual_time
async def test_row_equals_the_recorded_one(name: str) -> None:
    gates, steps = ROWS[name]
    ours = GroupReplay(gates)

    for step, told in zip(steps, RECORDED[name], strict=True):
        own, theirs = comparable(await ours.carry_out(step)), comparable(told)

        problems = differences(decided(own), decided(theirs))
        assert not problems, f"{step}: " + "\n".join(["", *map(str, problems)])
        assert own == theirs, step
