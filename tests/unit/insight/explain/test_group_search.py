"""Changes that let an entire group start."""

from tests.unit.insight.explain.clusters import SIX_OF_EIGHT, explained_group, gang, members, node, opened

from moorage.insight.explain.pods import explain_pod
from moorage.insight.whatif.edits import decode_edit

TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def test_changes_make_the_entire_group_fit() -> None:
    _, _, stuck = explained_group(*SIX_OF_EIGHT)
    texts = {change.kind: change.text for change in stuck.changes}
    assert texts["group"] == "Lower minCount of the group ring from 8 to 6, so that it starts with 6 pods"
    assert texts["request"] == "Lower the cpu request of container main from 1 to 666m, in all 8 pods"
    assert texts["add-node"] == "Add a node like n1"
    assert texts["delete-pod"] == "Delete default/blocker"
    for change in stuck.changes:
        with opened(*SIX_OF_EIGHT) as cluster:
            cluster.apply(*(decode_edit(edit) for edit in change.edits))
            assert cluster.try_group("default/ring").fits, change.text


def test_common_obstacle_is_changed_for_all_members() -> None:
    objects = [node("n1", taints=[TAINT]), node("n2", taints=[TAINT]), gang(4), *members(4)]
    fits, of, stuck = explained_group(*objects)
    assert (fits, of) == (0, 4)
    first = stuck.changes[0]
    assert (first.kind, first.text, len(first.edits)) == (
        "toleration",
        "Tolerate gpu=only:NoSchedule, in all 4 pods",
        4,
    )


def test_several_nodes_are_added_if_one_is_not_enough() -> None:
    objects = [node("n1"), gang(13), *members(13)]
    _, _, stuck = explained_group(*objects)
    (added,) = [change for change in stuck.changes if change.kind == "add-node"]
    assert added.text == "Add 3 nodes like n1"
    for left_out in range(3):
        with opened(*objects) as cluster:
            cluster.apply(*(decode_edit(edit) for at, edit in enumerate(added.edits) if at != left_out))
            assert not cluster.try_group("default/ring").fits


def test_gates_of_some_members_gate_the_entire_group() -> None:
    free, gated = members(2)
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    with opened(node("n1"), gang(2), free, gated) as cluster:
        explained = explain_pod(cluster, "default/ring-0")
    assert explained.decision.result.value == "gated"
    assert [(change.kind, change.text) for change in explained.changes] == [
        ("gate", "Remove the scheduling gates of 1 of its pods")
    ]
