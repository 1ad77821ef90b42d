"""The number of nodes that a search checks, and the start of the next search."""

import pytest
from tests.support.engine import build_runner

from moorage.scheduler.config import default_config
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import SeveralNodes
from moorage.testing import make_node, make_pod

ADAPTIVE = dict(
    zip(
        (99, 100, 101, 250, 500, 1000, 2000, 5000, 5624, 5625, 6000, 10000, 15000),
        (99, 100, 100, 120, 230, 420, 680, 500, 337, 281, 300, 500, 750),
        strict=True,
    )
)


def placement(percentage: int | None, nodes: int = 0) -> ProfileRunner:
    return build_runner(*(make_node(f"n{i}") for i in range(nodes)), percentage=percentage)


def several(runner: ProfileRunner, pod: str) -> SeveralNodes:
    result = runner.find(make_pod(pod))
    assert isinstance(result, SeveralNodes)
    return result


@pytest.mark.parametrize(("nodes", "wanted"), ADAPTIVE.items())
def test_zero_percent_is_adaptive(nodes: int, wanted: int) -> None:
    assert placement(0).filtering.count_to_find(nodes) == wanted


@pytest.mark.parametrize(("percentage", "wanted"), {1: 100, 5: 100, 50: 500, 100: 1000}.items())
def test_a_written_percentage_counts_with_a_floor_of_100(percentage: int, wanted: int) -> None:
    assert placement(percentage).filtering.count_to_find(1000) == wanted


def test_nothing_written_means_every_node() -> None:
    assert placement(None).filtering.count_to_find(5000) == 5000
    assert default_config().percentage_of_nodes_to_score is None


def test_the_search_ends_with_the_first_node_too_many_and_the_next_one_starts_there() -> None:
    limited = placement(50, nodes=250)
    first, second = several(limited, "a"), several(limited, "b")
    assert (first.count, second.count) == (125, 125)
    assert (first.start, second.start) == (0, 125)


def test_looking_at_every_node_leaves_the_start_where_it_is() -> None:
    everything = placement(None, nodes=7)
    assert [several(everything, f"p{i}").start for i in range(3)] == [0, 0, 0]


def test_the_rotation_wraps_around() -> None:
    rotation = Rotation()
    rotation.advance(7, 5)
    assert rotation.start == 2
