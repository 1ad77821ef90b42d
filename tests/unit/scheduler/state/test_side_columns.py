"""Side columns equal columns built from scratch after any sequence of changes."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.storage import CSINode, CSINodeDriver, CSINodeSpec
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.state.side_columns import SideColumns
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig


class DriversAndPods(SideColumns):
    """The number of drivers and pods of a node, as an example."""

    def __init__(self, rig: Rig) -> None:
        self.csi_nodes = rig.lister(CSINode)
        super().__init__(rig.nodes, {"csi": self.csi_nodes})
        self.facts: dict[int, tuple[str, int, int]] = {}
        self.writes = 0

    def write(self, info: NodeInfo) -> None:
        csi_node = self.csi_nodes.get(info.name)
        self.facts[info.row] = (info.name, len(csi_node.spec.drivers) if csi_node else -1, len(info.pods))
        self.writes += 1

    def clear(self, row: int) -> None:
        self.facts.pop(row, None)

    def find_rows(self, source: str, key: str) -> Iterable[int] | None:
        return self.row_of(key)


def csi_node(name: str, drivers: int) -> CSINode:
    return CSINode(
        metadata=ObjectMeta(name=name),
        spec=CSINodeSpec(drivers=tuple(CSINodeDriver(name=str(i)) for i in range(drivers))),
    )


NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES),
        st.tuples(st.just("gone"), NAMES),
        st.tuples(st.just("pod"), NAMES),
        st.tuples(st.just("csi"), NAMES),
        st.tuples(st.just("look"), NAMES),
    ),
    max_size=20,
)


@given(steps=STEPS)
def test_columns_follow_everything(steps: list[tuple[str, str]]) -> None:
    rig = Rig()
    columns = DriversAndPods(rig)
    for number, (action, name) in enumerate(steps):
        match action:
            case "node":
                rig.add(make_node(name))
            case "gone" if rig.nodes.find(name) is not None:
                rig.cache.remove_node(name)
            case "pod":
                rig.add(make_pod(f"p{number}", node=name))
            case "csi":
                rig.add(csi_node(name, number))
            case _:
                columns.refresh()
    columns.refresh()
    rebuilt = DriversAndPods(rig)
    rebuilt.refresh()
    assert columns.facts == rebuilt.facts


def test_only_rows_that_changed_are_rewritten() -> None:
    rig = Rig(make_node("a"), make_node("b"), make_node("c"))
    columns = DriversAndPods(rig)
    columns.refresh()
    assert columns.writes == 3
    rig.add(csi_node("b", 1), csi_node("unknown", 1))
    rig.add(make_pod("p", node="c"))
    columns.refresh()
    columns.refresh()
    assert columns.writes == 5


def test_the_last_row_is_cleared_when_another_node_is_removed() -> None:
    rig = Rig(make_node("a"), make_node("b"), make_node("c"))
    columns = DriversAndPods(rig)
    columns.refresh()
    rig.cache.remove_node("a")
    columns.refresh()
    assert {row: name for row, (name, _, _) in columns.facts.items()} == {0: "c", 1: "b"}
