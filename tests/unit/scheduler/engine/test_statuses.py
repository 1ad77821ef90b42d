"""Statuses per row equal the same statuses per name."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.statuses import RowStatuses, StatusTable, rejected_rows, with_ids
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Code, Status, Verdict
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

STATUSES = (
    None,
    Status.unschedulable("Insufficient cpu").by("NodeResourcesFit"),
    Status.unresolvable("tainted").by("TaintToleration"),
    Status.unschedulable("Insufficient cpu", "Insufficient memory").by("NodeResourcesFit"),
)
ABSENT = Status.unresolvable("not evaluated")


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=9))
def test_rows_and_names_have_the_same_statuses(rows: list[tuple[int, bool]]) -> None:
    nodes, table = Rig(*(make_node(f"n{row}") for row in range(len(rows)))).nodes, StatusTable()
    picked = [STATUSES[number] for number, _ in rows]
    ids = np.array([0 if status is None else table.number(status) for status in picked], dtype=np.int32)
    examined = np.array([is_examined for _, is_examined in rows])
    by_row = RowStatuses(nodes, ids, table, examined, ABSENT)
    explicit = {f"n{row}": status for row, status in enumerate(picked) if status is not None and examined[row]}
    by_name = NodeStatuses(explicit, ABSENT)

    assert by_row.explicit == explicit
    assert by_row.explicit_count == len(explicit)
    assert by_row.counts() == by_name.counts()
    assert by_row.reasons(len(rows)) == by_name.reasons(len(rows))
    assert {group.status: group for group in by_row.grouped(len(rows), 2)} == {
        group.status: group for group in by_name.grouped(len(rows), 2)
    }
    assert all(by_row[node.name] == by_name[node.name] for node in nodes)
    order = np.arange(len(rows))[::-1]
    for code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        assert by_row.select_rows(code, nodes, order).tolist() == by_name.select_rows(code, nodes, order).tolist()


def test_kept_statuses_do_not_follow_later_attempts() -> None:
    nodes, table, full = Rig(make_node("a")).nodes, StatusTable(), Status.unschedulable("full")
    ids = np.array([table.number(full)], dtype=np.int32)
    statuses = RowStatuses(nodes, ids, table, None, ABSENT)
    stored = statuses.kept()
    ids[0] = 0
    assert statuses["a"] == ABSENT
    assert stored["a"] == full


def test_equal_statuses_have_one_number_and_columns_are_copied() -> None:
    table = StatusTable()
    first, second = table.number(Status.unschedulable("x").by("P")), table.number(Status.unschedulable("x").by("Q"))
    assert table.number(Status.unschedulable("x").by("P")) == first != second
    assert table.plugins == {"P", "Q"}
    ids = np.zeros(3, dtype=np.int32)
    assert with_ids(ids, {2: second}).tolist() == [0, 0, second]
    assert ids.tolist() == [0, 0, 0]


class RejectsForManyReasons(FilterPlugin):
    """Reject node ``a`` for a hundred reasons, and node ``b`` for the last of these."""

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        masks = [np.array([True, number == 99, False]) for number in range(100)]
        return Verdict(3, tuple((mask, Status.unschedulable(f"r{number}")) for number, mask in enumerate(masks)))


def test_every_one_of_many_rejections_counts() -> None:
    rig, table = Rig(*map(make_node, "abc")), StatusTable()
    rejections = rejected_rows(RejectsForManyReasons(), CycleState(), make_pod(), rig.nodes, table, None)
    reasons = {tuple(mask.tolist()): table[number].reasons for mask, number in rejections}  # type: ignore[union-attr]
    assert reasons == {
        (True, False, False): tuple(f"r{number}" for number in range(100)),
        (False, True, False): ("r99",),
    }
