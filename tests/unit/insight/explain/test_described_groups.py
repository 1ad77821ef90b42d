"""Pods of gangs that a plugin knows by annotations: explained with their gang, not as if they were alone."""

from tests.support.gangs import COSCHEDULING
from tests.unit.insight.explain.clusters import Object, node, pod, session

from moorage.insight.explain.pods import explain_pod

CONFIG = COSCHEDULING.replace("{ARGS}", "{}")


def gang(count: int, size: str) -> list[Object]:
    pods = [pod(f"ring-{number}") for number in range(count)]
    for made in pods:
        made["metadata"]["annotations"] = {"moorage.io/gang": "ring", "moorage.io/gang-size": size}
    return pods


def test_a_gang_that_lacks_pods_says_so() -> None:
    with session(node("n1"), *gang(2, "3"), config=CONFIG) as cluster:
        found = explain_pod(cluster, "default/ring-0")
    assert not found.decision.node
    assert found.decision.message == 'the group "ring" starts with 3 pods and 2 of them are there'
    assert found.group == {"name": "ring", "members": 2, "fits": 2, "minCount": 3}


def test_a_gang_that_does_not_fit_says_how_many_would() -> None:
    with session(node("n1"), *gang(6, "6"), config=CONFIG) as cluster:
        found = explain_pod(cluster, "default/ring-0")
    assert not found.decision.node
    assert "minMember (6) cannot be satisfied" in found.decision.message
    assert found.group == {"name": "ring", "members": 6, "fits": 4, "minCount": 6}


def test_a_gang_that_fits_does() -> None:
    with session(node("n1"), *gang(3, "3"), config=CONFIG) as cluster:
        found = explain_pod(cluster, "default/ring-0")
    assert found.decision.node == "n1"
