from typing import Any

import pytest
from tests.support.reconciling import NOW, make, pod, status_in

from moorage.cluster.controllers.disruption import DisruptionController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.common.clock import VirtualClock
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ReplicaSet

SELECTOR = {"matchLabels": {"app": "web"}}


def budget(status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    return make(PodDisruptionBudget, "pdb", spec={"selector": SELECTOR, **spec}, status=status or {})


def pods(ready: int, sick: int = 0) -> list[Pod]:
    maker = make(ReplicaSet, "web")
    well = [pod(f"well-{n}", owner=maker, labels={"app": "web"}) for n in range(ready)]
    return well + [pod(f"sick-{n}", owner=maker, labels={"app": "web"}, ready=False) for n in range(sick)]


Counts = tuple[int, int, int, int]
CASES: dict[str, tuple[PodDisruptionBudget, list[Pod], Counts]] = {
    "an absolute minimum": (budget(minAvailable=2), pods(3), (3, 3, 2, 1)),
    "an unready pod is not healthy": (budget(minAvailable=2), pods(2, 1), (3, 2, 2, 0)),
    "a percentage of the replicas": (budget(minAvailable="50%"), pods(3), (4, 3, 2, 1)),
    "an absolute maximum of unavailable pods": (budget(maxUnavailable=1), pods(4), (4, 4, 3, 1)),
    "a maximum percentage of unavailable pods": (budget(maxUnavailable="50%"), pods(2, 1), (4, 2, 2, 0)),
    "without pods no disruption is allowed": (budget(minAvailable=0), [], (0, 0, 0, 0)),
    "a terminating pod is not healthy": (
        budget(minAvailable=1),
        [*pods(1), pod("x", labels={"app": "web"}, stopping=True)],
        (2, 1, 1, 0),
    ),
}


@pytest.mark.parametrize(("workload", "present", "want"), CASES.values(), ids=CASES)
def test_counts(workload: PodDisruptionBudget, present: list[Pod], want: Counts) -> None:
    maker = make(ReplicaSet, "web", spec={"replicas": 4})
    cache = InformerCache([workload, maker, *present, pod("other", labels={"app": "other"})])
    status = status_in(DisruptionController(VirtualClock()).reconcile(workload.key, cache))
    fields = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert tuple(status.get(field, 0) for field in fields) == want


def test_granted_eviction_counts_until_it_happens() -> None:
    recent, old = format_time(NOW - 10), format_time(NOW - 500)
    granted = {"well-0": recent, "well-1": old, "gone": recent}
    workload = budget({"disruptedPods": granted}, minAvailable=1)
    cache = InformerCache([workload, *pods(3)])
    status = status_in(DisruptionController(VirtualClock()).reconcile(workload.key, cache))
    assert status["currentHealthy"] == 2
    assert status["disruptedPods"] == {"well-0": recent, "well-1": None, "gone": None}
