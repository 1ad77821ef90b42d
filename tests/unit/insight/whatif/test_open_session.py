"""``moorage.Session``: opened on any source, queried for tables, and undone step by step; scripts and notebooks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moorage import CycleState, FilterPlugin, NodeInfo, NodeNames, Pod, PreFilterPlugin, ScorePlugin, Session, Status
from moorage.common.errors import ConfigError, InputError
from moorage.insight.snapshots.snapshot_file import write_snapshot
from moorage.insight.whatif.edits import DeleteObject, ObjectId


class Good(FilterPlugin, ScorePlugin):
    """Wants good nodes, the higher the number the better."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.labels["good"] != "0" else Status.unresolvable("node(s) were not good")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels["good"])


class OnlyB(PreFilterPlugin, FilterPlugin):
    """Gets the nodes, or an empty list, before it filters any node."""

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: object) -> NodeNames | Status | None:
        if pod.labels.get("any"):
            return Status.skip()
        return Status.unresolvable("never") if pod.labels.get("never") else NodeNames(frozenset(("b",)))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


def node(name: str, good: int, cpu: str = "4") -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"good": str(good)}},
        "status": status,
    }


def pod(name: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "a:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


NODES = [node("a", 0), node("b", 50), node("c", 80), node("d", 90, cpu="1")]
FITS = {"fits": True, "plugin": "", "code": "", "reason": ""}


def test_filter_by_the_profile_names_the_first_plugin_that_rejects() -> None:
    with Session.open(*NODES, pod("web", cpu="2"), plugins=[Good]) as session:
        rows = {row.pop("node"): row for row in session.filter("web")}
    unresolvable = {"fits": False, "code": "UnschedulableAndUnresolvable"}
    assert rows["a"] == {**unresolvable, "plugin": "Good", "reason": "node(s) were not good"}
    assert rows["b"] == rows["c"] == FITS
    assert (rows["d"]["plugin"], rows["d"]["reason"]) == ("NodeResourcesFit", "Insufficient cpu")


def test_filter_by_one_plugin_calls_only_that_plugin() -> None:
    with Session.open(*NODES, pod("web", cpu="2"), plugins=[Good]) as session:
        assert [row["fits"] for row in session.filter("web", "Good")] == [False, True, True, True]
        assert [row["fits"] for row in session.filter("web", "NodeResourcesFit")] == [True, True, True, False]


def test_filter_by_a_plugin_that_names_nodes_or_none() -> None:
    with Session.open(*NODES, plugins=[OnlyB]) as session:
        rows = session.filter(pod("web"), "OnlyB")
        assert [row["fits"] for row in rows] == [False, True, False, False]
        assert rows[0]["reason"] == "node(s) didn't satisfy plugin OnlyB"
        never, anywhere = pod("never"), pod("any")
        never["metadata"]["labels"], anywhere["metadata"]["labels"] = {"never": "y"}, {"any": "y"}
        assert {row["reason"] for row in session.filter(never, "OnlyB")} == {"never"}
        assert {row["reason"] for row in session.filter(never)} == {"never"}
        assert all(row["fits"] for row in session.filter(anywhere, "OnlyB"))
        assert [row["node"] for row in session.filter(pod("web")) if row["fits"]] == ["b"]
        assert [row["node"] for row in session.score(pod("web"))] == ["b"]


def test_scores_are_the_best_first_and_add_up() -> None:
    with Session.open(*NODES, pod("web"), plugins=[Good]) as session:
        rows = session.score("web")
        assert sorted(row["node"] for row in rows) == ["b", "c", "d"]
        for row in rows:
            assert row["total"] == sum(value for name, value in row.items() if name not in ("node", "total"))
        assert [row["total"] for row in rows] == sorted((row["total"] for row in rows), reverse=True)
        assert session.score("web", "Good") == [
            {"node": "d", "weighed": 90, "normalized": 90, "raw": 90},
            {"node": "c", "weighed": 80, "normalized": 80, "raw": 80},
            {"node": "b", "weighed": 50, "normalized": 50, "raw": 50},
        ]
        assert session.place("web").node == rows[0]["node"]


def test_a_plugin_that_skips_the_pod_adds_nothing() -> None:
    with Session.open(*NODES, pod("web"), plugins=[Good]) as session:
        assert {row["weighed"] for row in session.score("web", "InterPodAffinity")} == {0}


def test_nothing_fits_nothing_is_scored() -> None:
    with Session.open(*NODES, pod("web", cpu="99")) as session:
        assert session.score("web") == []


def test_queries_change_nothing_and_treat_a_placed_pod_as_unplaced() -> None:
    there = pod("old", cpu="4", nodeName="b")
    with Session.open(*NODES, there, pod("web", cpu="4")) as session:
        fitting = [row["node"] for row in session.filter("old") if row["fits"]]
        assert fitting == ["a", "b", "c"]
        assert [row["node"] for row in session.filter("web") if row["fits"]] == ["a", "c"]
        assert session.filter("old") == session.filter("old")
        assert {row["pod"]: row["node"] for row in session.pods()} == {"default/old": "b", "default/web": ""}


def test_place_and_undo_step_by_step() -> None:
    with Session.open(*NODES, pod("one", cpu="4")) as session:
        first = session.place("one")
        second = session.place(pod("two", cpu="4"))
        assert len({first.node, second.node} - {""}) == 2
        assert {row["node"] for row in session.pods()} == {first.node, second.node}
        session.apply(DeleteObject(ObjectId("Node", "", "a")))
        assert len(session.filter(pod("x"))) == 3
        session.undo()
        assert len(session.filter(pod("x"))) == 4
        session.undo()
        assert [(row["pod"], row["node"]) for row in session.pods()] == [("default/one", first.node)]
        session.undo()
        assert [row["node"] for row in session.pods()] == [""]
        with pytest.raises(InputError, match="nothing to undo"):
            session.undo()


def test_a_pod_is_placed_once() -> None:
    with Session.open(*NODES, pod("old", nodeName="b"), pod("one")) as session:
        node_name = session.place("one").node
        for name, where in (("one", node_name), ("old", "b")):
            with pytest.raises(InputError, match=f"Pod default/{name}: already on node {where}"):
                session.place(name)
        session.undo()
        assert session.place("one").node == node_name


def test_a_pod_that_is_being_deleted_gets_no_node() -> None:
    going = pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with Session.open(*NODES, going) as session, pytest.raises(InputError, match="the pod is being deleted"):
        session.place("going")


def test_attempt_without_effect_is_not_a_step() -> None:
    with Session.open(*NODES, pod("big", cpu="99")) as session:
        assert session.place("big").node == ""
        with pytest.raises(InputError, match="nothing to undo"):
            session.undo()


def test_branch_changes_are_not_undone_twice() -> None:
    with Session.open(*NODES, pod("web")) as session:
        session.place(pod("other"))
        with session.branch():
            session.place("web")
        session.undo()
        assert [row["node"] for row in session.pods()] == [""]


def test_it_works_where_a_loop_is_running_as_in_a_notebook() -> None:
    async def cell() -> tuple[list[dict[str, Any]], str]:
        session = Session.open(*NODES, pod("web"), plugins=[Good])
        try:
            return session.score("web", "Good"), session.place("web").node
        finally:
            session.close()

    rows, placed = asyncio.run(cell())
    assert [row["node"] for row in rows] == ["d", "c", "b"]
    assert placed


SOURCES = ("file", "path", "snapshot", "objects", "file and objects")


@pytest.mark.parametrize("source", SOURCES)
def test_clusters_come_from_anywhere(source: str, tmp_path: Path) -> None:
    file, snapshot = tmp_path / "cluster.json", tmp_path / "today.json"
    file.write_text("".join(json.dumps(obj) for obj in NODES))
    write_snapshot(snapshot, NODES, source="here", versions={})
    opened = {
        "file": lambda: Session.open(str(file)),
        "path": lambda: Session.open(file),
        "snapshot": lambda: Session.open(snapshot=snapshot),
        "objects": lambda: Session.open(*NODES),
        "file and objects": lambda: Session.open(file, node("e", 1)),
    }[source]
    with opened() as session:
        assert [row["node"] for row in session.filter(pod("web"))][:4] == ["a", "b", "c", "d"]


def test_a_configuration_is_a_file_or_its_text(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Good, weight: 7}]}}}]\n"
    )
    file = tmp_path / "config.yaml"
    file.write_text(text)
    for config in (text, file, str(file)):
        with Session.open(*NODES, plugins=[Good], config=config) as session:
            assert session.score(pod("web"), "Good")[0] == {"node": "d", "weighed": 630, "normalized": 90, "raw": 90}


BAD: dict[str, tuple[Any, str]] = {
    "a pod that is not there": (lambda session: session.filter("webb"), "did you mean 'default/web'"),
    "a plugin that is not there": (lambda session: session.filter("web", "Goodd"), "did you mean 'Good'"),
    "a plugin that does not score": (
        lambda session: session.score("web", "NodeUnschedulable"),
        "no plugin 'NodeUnschedulable' that scores",
    ),
    "something that is no pod": (lambda session: session.place(node("z", 1)), "Node z: not a Pod"),
    "a pod of another scheduler": (
        lambda session: session.filter(pod("x", schedulerName="other")),
        "no profile for schedulerName 'other'",
    ),
}


@pytest.mark.parametrize(("ask", "message"), BAD.values(), ids=BAD)
def test_invalid_query_is_one_message_and_changes_nothing(ask: Any, message: str) -> None:
    with Session.open(*NODES, pod("web"), plugins=[Good]) as session:
        with pytest.raises(InputError) as refusal:
            ask(session)
        assert message in str(refusal.value)
        assert [row["pod"] for row in session.pods()] == ["default/web"]


def test_a_wrong_plugin_is_refused_as_everywhere() -> None:
    with pytest.raises(ConfigError, match="is not a plugin class"):
        Session.open(*NODES, plugins=[dict])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="module:Class"):
        Session.open(*NODES, plugins=["nothing"])
    with pytest.raises(InputError, match="file not found"):
        Session.open("nowhere.yaml")
