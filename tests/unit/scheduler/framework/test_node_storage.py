from moorage.kube.api.quantity import MAX_INT64
from moorage.scheduler.framework.node_storage import MAX_RESOURCE_COLUMNS
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig


def test_pods_larger_than_any_integer_do_not_stop_the_cache() -> None:
    huge = [make_pod(f"p{index}", node="node", requests={"memory": "8Ei"}) for index in range(2)]
    assert Rig(make_node(), *huge).nodes.requested["memory"].tolist() == [MAX_INT64]


def test_columns_are_created_only_for_requested_resources() -> None:
    names = [f"example.com/r{number}" for number in range(1000)]
    nodes = Rig(make_node("large", allocatable=dict.fromkeys(names, 3)), make_node("small")).nodes
    assert all(name in nodes.allocatable for name in names)
    columns = [nodes.allocatable[name].tolist() for name in names]
    assert columns == [[3, 0]] * 1000
    assert len(nodes._columns.allocatable._columns) <= MAX_RESOURCE_COLUMNS


def test_columns_follow_pods_with_resources_that_were_not_read_before() -> None:
    rig = Rig(make_node("a"), make_node("b"))
    assert rig.nodes.requested["example.com/gpu"].tolist() == [0, 0]
    rig.add(make_pod("p", node="b", requests={"example.com/gpu": 2, "example.com/fpga": 1}))
    assert rig.nodes.requested["example.com/gpu"].tolist() == [0, 2]
    rig.add(make_pod("q", node="b", requests={"example.com/gpu": 1, "example.com/fpga": 1}))
    assert rig.nodes.requested["example.com/gpu"].tolist() == [0, 3]
    assert rig.nodes.requested["example.com/fpga"].tolist() == [0, 2]


def test_labels_that_no_node_has_share_a_column_until_a_node_gets_one() -> None:
    rig = Rig(make_node("a"), make_node("b"))
    columns = len(rig.nodes._columns.categoricals())
    absent = [rig.nodes.label(f"absent-{number}") for number in range(100)]
    assert len(rig.nodes._columns.categoricals()) == columns
    assert all(list(column) == [None, None] for column in absent)
    rig.add(make_node("c", labels={"absent-7": "x"}))
    column = rig.nodes.label("absent-7")
    assert list(column) == [None, None, "x"]
    assert column.version not in {other.version for other in absent}
