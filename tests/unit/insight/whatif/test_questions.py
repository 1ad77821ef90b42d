"""Questions about capacity."""

from tests.unit.insight.explain.clusters import node, pod, session

from moorage.insight.whatif.questions import count_replicas, template_pods
from moorage.kube.manifests import to_documents


def test_copies_are_counted_until_one_does_not_fit() -> None:
    with session(node("n1"), node("n2", cpu="2"), pod("a", on="n1", requests={"cpu": "3"})) as opened:
        capacity = count_replicas(opened, pod("web"))
        assert (capacity.fits, capacity.nodes) == (3, {"n1": 1, "n2": 2})
        assert "Insufficient cpu" in capacity.message
        assert count_replicas(opened, pod("web"), most=2).message == ""


def test_workload_represents_its_pods() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    [created_pod] = template_pods(to_documents([deployment], source="here"), source="here")
    assert created_pod["metadata"] == {"labels": {"app": "web"}, "name": "web", "namespace": "default"}
