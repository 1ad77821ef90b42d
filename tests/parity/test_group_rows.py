"""Recorded group histories: Moorage's steps equal those of kube-scheduler."""

import json
import re

import pytest
from tests.conformance.compare import differences
from tests.parity.group_oracle import recorded
from tests.parity.group_replay import GroupReplay, comparable
from tests.parity.group_rows import ROWS
from tests.parity.queue_replay import Json

from moorage.common.version import NEWEST
from moorage.testing import in_virtual_time

RECORDED = recorded()
TEXTS_OF_1_38 = {
    r"\b(first|reported) placement status": "placement status",
    r"\b(SchedulerError|PodGroupError)\b": "an error",
}


def decided(report: Json) -> list[Json]:
    """Take the decisions out of a report."""
    result = [report.pop("decision")] if "decision" in report else report.pop("decisions", [])
    return [*result, report.pop("group")] if "group" in report else result


def test_all_rows_are_recorded() -> None:
    assert list(RECORDED) == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
@in_virtual_time
async def test_row_equals_the_recorded_one(name: str) -> None:
    gates, steps = ROWS[name]
    actual = GroupReplay(gates)

    for step, report in zip(steps, RECORDED[name], strict=True):
        own, upstream = comparable(await actual.carry_out(step)), comparable(report)

        problems = differences(decided(own), decided(upstream))
        assert not problems, f"{step}: " + "\n".join(["", *map(str, problems)])
        assert own == upstream, step


def without_texts(report: Json) -> Json:
    """Replace the texts that 1.38 changed by those of both releases."""
    text = json.dumps(report)
    for pattern, replacement in TEXTS_OF_1_38.items():
        text = re.sub(pattern, replacement, text)
    changed: Json = json.loads(text)
    return changed


@pytest.mark.parametrize("name", ROWS)
@in_virtual_time
async def test_row_with_the_same_gates_differs_in_texts_only_at_1_38(name: str) -> None:
    gates, steps = ROWS[name]
    actual = GroupReplay(gates, NEWEST)

    for step, report in zip(steps, RECORDED[name], strict=True):
        own, upstream = (without_texts(comparable(item)) for item in (await actual.carry_out(step), report))

        problems = differences(decided(own), decided(upstream))
        assert not problems, f"{step}: " + "\n".join(["", *map(str, problems)])
        assert own == upstream, step
