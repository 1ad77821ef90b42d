"""Whole workloads: how many pods fit, and changes that help the next one without harming those before it."""

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod, session

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import WorkloadExplanation
from moorage.insight.explain.workloads import explain_workload, find_workload

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}]},
}
WEB: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def explained(*objects: Object) -> WorkloadExplanation:
    with session(WEB, *objects) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        return explain_workload(opened, workload)


def test_no_pod_of_a_workload_goes_for_another_of_it() -> None:
    """Whether it runs, or is only thought of: it would come back, and wait in the place of the other."""
    running = pod("web-x", on="n1", labels={"app": "web"}, requests={"cpu": "2"})
    explanation = explained(node("n1"), node("n2"), running)
    assert (explanation.fits, explanation.of) == (4, 5)
    assert explanation.next is not None
    assert [change.kind for change in explanation.next.changes] == ["request", "add-node", "node-capacity"]


def test_other_pods_may_be_deleted() -> None:
    explanation = explained(node("n1"), node("n2"), pod("other", on="n2", requests={"cpu": "4"}))
    assert (explanation.fits, explanation.of) == (2, 5)
    assert explanation.next is not None
    deleted_pods = [
        edit["delete"]["name"] for change in explanation.next.changes for edit in change.edits if "delete" in edit
    ]
    assert deleted_pods == ["other"]


def test_other_kinds_are_refused() -> None:
    with session(WEB) as opened, pytest.raises(InputError, match="a DaemonSet cannot be scheduled"):
        find_workload(opened, "ds/agent", "default")


def test_a_namespace_may_be_called_like_a_kind() -> None:
    pending_pod = pod("p")
    pending_pod["metadata"]["namespace"] = "service"
    with session(pending_pod) as opened:
        assert find_workload(opened, "service/p", "default") is None


def test_pod_of_another_namespace_is_suggested() -> None:
    pending_pod = pod("big")
    pending_pod["metadata"]["namespace"] = "shop"
    with session(pending_pod, pod("bug")) as opened, pytest.raises(InputError, match="there is 'shop/big'"):
        opened.pod("default/big")
