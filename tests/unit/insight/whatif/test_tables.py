"""Results of plugins as rows."""

from tests.unit.insight.whatif.clusters import FITS, NODES, Good, OnlyB, pod

from moorage import Session


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


def test_filter_by_a_plugin_that_selects_nodes_in_pre_filter() -> None:
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


def test_scores_are_sorted_and_add_up() -> None:
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


def test_skipped_plugin_adds_no_column() -> None:
    with Session.open(*NODES, pod("web"), plugins=[Good]) as session:
        assert {row["weighed"] for row in session.score("web", "InterPodAffinity")} == {0}


def test_infeasible_pod_has_no_scores() -> None:
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
