import pytest
from tests.support.api import MERGE, PODS, Asked, budget, node, pod

BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def running(asked: Asked, name: str = "web") -> None:
    asked.create(PODS, pod(name, labels={"app": "web"}))
    asked.got("POST", f"{PODS}/{name}/binding", BINDING, want=201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    asked.got("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


def test_a_pod_that_has_no_node_is_gone_at_once():
    asked = Asked()
    asked.create(PODS, pod())
    asked.got("DELETE", f"{PODS}/web")
    assert asked.names(PODS) == []


def test_a_running_pod_gets_its_grace_and_goes_when_the_kubelet_says_so():
    asked = Asked()
    running(asked)
    marked = asked.got("DELETE", f"{PODS}/web")["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert asked.names(PODS) == ["web"]
    shortened = asked.got("DELETE", f"{PODS}/web?gracePeriodSeconds=5")["metadata"]
    assert shortened["deletionTimestamp"] < marked["deletionTimestamp"]
    asked.got("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert asked.names(PODS) == []


def test_an_object_waits_for_its_finalizers():
    asked = Asked()
    thing = node()
    thing["metadata"]["finalizers"] = ["example.org/wait"]
    asked.create("/api/v1/nodes", thing)
    asked.got("DELETE", "/api/v1/nodes/n1")
    assert asked.get("/api/v1/nodes/n1")["metadata"]["deletionTimestamp"]
    asked.got("PATCH", "/api/v1/nodes/n1", {"metadata": {"finalizers": None}}, content_type=MERGE)
    asked.got("GET", "/api/v1/nodes/n1", want=404)


def test_what_becomes_of_dependents_is_left_to_the_collector_as_a_finalizer():
    asked = Asked()
    asked.create("/api/v1/nodes", node())
    kept = asked.got("DELETE", "/api/v1/nodes/n1?propagationPolicy=Foreground")
    assert kept["metadata"]["finalizers"] == ["foregroundDeletion"]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_what_has_no_dependents_to_be_collected_goes_at_once(policy: str):
    asked = Asked()
    asked.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "fast"}, "provisioner": "p"})
    asked.got("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", {"propagationPolicy": policy})
    assert asked.names("/apis/storage.k8s.io/v1/storageclasses") == []


def test_a_deletion_meant_for_another_object_is_refused():
    asked = Asked()
    asked.create(PODS, pod())
    asked.got("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}}, want=409)
    assert asked.names(PODS) == ["web"]


def test_many_are_deleted_by_selector():
    asked = Asked()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        asked.create(PODS, pod(name, labels={"app": app}))
    asked.got("DELETE", f"{PODS}?labelSelector=app%3Dx".replace("%3D", "="))
    assert asked.names(PODS) == ["c"]


def test_a_namespace_takes_nothing_new_while_it_ends_and_goes_when_it_is_finalized():
    asked = Asked()
    asked.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    ending = asked.got("DELETE", "/api/v1/namespaces/shop")
    assert ending["status"]["phase"] == "Terminating"
    asked.got("POST", "/api/v1/namespaces/shop/pods", pod(), want=403)
    ending["spec"] = {"finalizers": []}
    asked.got("PUT", "/api/v1/namespaces/shop/finalize", ending)
    asked.got("GET", "/api/v1/namespaces/shop", want=404)


def test_a_pod_is_bound_once():
    asked = Asked()
    running(asked)
    bound = asked.get(f"{PODS}/web")
    assert bound["spec"]["nodeName"] == "n1"
    assert {"PodScheduled", "Ready"} >= {item["type"] for item in bound["status"]["conditions"]}
    refused = asked.got("POST", f"{PODS}/web/binding", BINDING, want=409)
    assert 'already assigned to node "n1"' in refused["message"]


def test_a_binding_of_another_pod_of_that_name_is_refused():
    asked = Asked()
    asked.create(PODS, pod())
    asked.got("POST", f"{PODS}/web/binding", {**BINDING, "metadata": {"name": "web", "uid": "old"}}, want=409)
    asked.got("POST", f"{PODS}/gone/binding", BINDING, want=404)


def evict(asked: Asked, name: str, want: int) -> dict[str, object]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return asked.got("POST", f"{PODS}/{name}/eviction", body, want=want)


def with_budget(asked: Asked, allowed: int) -> None:
    asked.create(BUDGETS, budget())
    asked.got("PUT", f"{BUDGETS}/keep/status", budget(allowed=allowed))


def test_evictions_are_counted_against_the_budget():
    asked = Asked()
    running(asked, "a")
    running(asked, "b")
    with_budget(asked, allowed=1)
    evict(asked, "a", 201)
    refused = evict(asked, "b", 429)
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"  # type: ignore[index]
    assert asked.get(f"{BUDGETS}/keep")["status"]["disruptedPods"].keys() == {"a"}


def test_a_pod_that_never_started_is_evicted_whatever_the_budget():
    asked = Asked()
    asked.create(PODS, pod(labels={"app": "web"}))
    with_budget(asked, allowed=0)
    evict(asked, "web", 201)
    assert asked.names(PODS) == []


def test_without_a_budget_everything_may_be_evicted():
    asked = Asked()
    running(asked)
    evict(asked, "web", 201)
    assert "deletionTimestamp" in asked.get(f"{PODS}/web")["metadata"]
