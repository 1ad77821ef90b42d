"""Windows on the nodes: any rows in any order, read-only, each row the same in every window."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.affinity import Taint
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.testing import make_node

SIZES = (1, 2, 4, 8, 16)
TABLE = NodeTable.of(
    *(
        NodeInfo(
            make_node(
                f"n{place}",
                zone="ab"[place % 2],
                allocatable={"cpu": cpus},
                cordoned=place == 1,
                taints=[Taint(key="spot", effect="NoSchedule")] if place == 2 else (),
            )
        )
        for place, cpus in enumerate(SIZES)
    )
)


@given(st.lists(st.integers(0, len(SIZES) - 1), max_size=8))
def test_a_window_shows_the_rows_it_was_given(rows: list[int]) -> None:
    window = TABLE.take(np.array(rows, dtype=np.int64))
    assert len(window) == len(rows)
    assert list(window.names) == [f"n{row}" for row in rows]
    assert window.rows.tolist() == rows
    assert window.allocatable["cpu"].tolist() == [1000 * SIZES[row] for row in rows]
    assert window.unschedulable.tolist() == [row == 1 for row in rows]
    assert list(window.label("topology.kubernetes.io/zone")) == ["ab"[row % 2] for row in rows]
    assert window.taints.where(bool).tolist() == [row == 2 for row in rows]
    assert window.requested["example.com/none"].tolist() == [0] * len(rows)


@given(st.lists(st.integers(0, len(SIZES) - 1), min_size=1, max_size=8), st.data())
def test_a_window_on_a_window(rows: list[int], data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    inner = TABLE.take(np.array(rows, dtype=np.int64)).take(np.array(positions, dtype=np.int64))
    assert list(inner.names) == [f"n{rows[position]}" for position in positions]


def test_candidates_are_the_remaining_nodes() -> None:
    alive = np.array([True, False, True])
    window = TABLE.take(np.array([4, 0, 2])).among(alive)
    assert [(position, node.name) for position, node in window.candidates()] == [(0, "n4"), (2, "n2")]
    assert len(window) == 3
    assert window.in_running is alive


@pytest.mark.parametrize("column", [TABLE.allocatable["cpu"], TABLE.unschedulable, TABLE.pod_count])
def test_columns_cannot_be_written(column: np.ndarray) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


def test_the_cluster_remains_in_sight() -> None:
    window = TABLE.take(np.array([0]))
    assert not window.shows_all
    assert TABLE.shows_all
    assert window.is_window_of(TABLE)
    node = window.find("n4")
    assert node is not None
    assert node.allocatable["cpu"] == 16_000
    assert window.find("n9") is None


def test_table_of_nodes_does_not_change_them() -> None:
    info = NodeInfo(make_node("n"))
    NodeTable.of(info, info.copy())
    assert info.row == NodeInfo(make_node("n")).row
