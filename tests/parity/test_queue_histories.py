"""Recorded histories of kube-scheduler's queue: each step of our queue must be equal."""

import json
from pathlib import Path

import pytest
from tests.parity.queue_oracle import GOLDENS, first_difference

RECORDED = sorted(GOLDENS.glob("*.json"))


def test_there_are_recorded_histories() -> None:
    assert len(RECORDED) >= 20


@pytest.mark.parametrize("golden", RECORDED, ids=lambda path: path.stem)
def test_queue_equals_the_recorded_history(golden: Path) -> None:
    recorded = json.loads(golden.read_text())
    difference = first_difference(recorded, recorded["reports"])
    assert difference is None, difference
