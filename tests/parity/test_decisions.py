"""Recorded clusters: Moorage makes the decisions of kube-scheduler, in all fields.

`python -m tests.conformance.goldens` records them; a fixed difference remains as its shrunk case.
"""

from pathlib import Path

import pytest
from tests.conformance import goldens
from tests.conformance.compare import differences
from tests.conformance.ours import decide, decide_as_next

FILES = sorted(goldens.DIRECTORY.glob("*.jsonl.gz"))
CASES = [(path, number) for path in FILES for number in range(sum(1 for _ in goldens.read(path)))]


@pytest.fixture(scope="module")
def recorded() -> dict[Path, list[goldens.Golden]]:
    return {path: list(goldens.read(path)) for path in FILES}


@pytest.mark.parametrize(
    ("path", "number"), CASES, ids=[f"{path.name.partition('.')[0]}-{number}" for path, number in CASES]
)
def test_decisions_equal_the_recorded_ones(path: Path, number: int, recorded: dict[Path, list[goldens.Golden]]) -> None:
    golden = recorded[path][number]

    problems = differences(decide(golden.case), golden.decisions)

    assert not problems, "\n".join(["", *map(str, problems)])


@pytest.mark.parametrize(
    ("path", "number"), CASES[::25], ids=[f"{path.name.partition('.')[0]}-{number}" for path, number in CASES[::25]]
)
def test_next_release_with_the_same_gates_decides_alike(
    path: Path, number: int, recorded: dict[Path, list[goldens.Golden]]
) -> None:
    golden = recorded[path][number]

    problems = differences(decide_as_next(golden.case), golden.decisions)

    assert not problems, "\n".join(["", *map(str, problems)])


def test_there_are_recorded_clusters() -> None:
    assert len(CASES) >= 200
