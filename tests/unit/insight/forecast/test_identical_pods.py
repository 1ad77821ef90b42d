"""Identical pending pods: attempts that must fail are skipped, and starts do not change."""

import pytest
from msgspec import convert
from tests.unit.insight.explain.clusters import Object, node
from tests.unit.insight.forecast.test_forecasting import forecast, job_pod

from moorage.insight.forecast.identical_pods import IdenticalPods, PodSignatures
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.scheduler import Scheduler


def make_pod(name: str, *, cpu: str = "1", **more: object) -> Pod:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more}
    return convert({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}, Pod)


def make_queue(count: int) -> list[Object]:
    """Return one busy node with one slot, and old pending pods of 10 minutes each."""
    pending = [job_pod(f"p{number}", cpu="3", runs="10m") for number in range(count)]
    for number, content in enumerate(pending):
        content["metadata"]["creationTimestamp"] = f"2026-11-18T08:{number:02}:00Z"
    return [node("n1", cpu="4"), job_pod("busy", on="n1", cpu="3", started="09:30", deadline=3600), *pending]


def test_next_pod_replaces_the_scheduled_first_pod() -> None:
    identical = IdenticalPods(PodSignatures())
    for name in "abc":
        identical.add(make_pod(name))
    assert [identical.hold(name) for name in "acb"] == [False, True, True]
    following = identical.pop_next("a")
    assert following is not None
    assert (following.pod.name, following.position) == ("b", 2)
    assert identical.pop_next("unknown") is None


@pytest.mark.parametrize(
    ("pod", "is_identical"),
    {
        "name differs": (make_pod("b"), True),
        "requests differ": (make_pod("b", cpu="2"), False),
        "priority differs": (make_pod("b", priority=5), False),
        "own volume": (make_pod("b", volumes=[{"name": "v", "ephemeral": {}}]), False),
        "gated": (make_pod("b", schedulingGates=[{"name": "g"}]), False),
    }.values(),
)
def test_signature(pod: Pod, is_identical: bool) -> None:
    signatures = PodSignatures()
    assert (signatures.find(pod) == signatures.find(make_pod("a"))) is is_identical


def test_long_queue_starts_in_order_with_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0
    original = Scheduler.try_pod

    async def count(self: Scheduler, *args: object, **more: object) -> object:
        nonlocal attempts
        attempts += 1
        return await original(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "try_pod", count)
    result = forecast("p19", *make_queue(20))
    assert result.start is not None
    assert result.start.p50 == pytest.approx(1800.0 + 19 * 600.0, abs=1.0)
    # 10 futures and one that checks whether it can start; all pods would be tried at each end: 210 attempts in each.
    assert attempts < 11 * 60


def test_later_pods_of_another_size_do_not_overtake() -> None:
    objects = make_queue(6)
    for number in (1, 3):  # each takes the room of one of the others
        objects[2 + number]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    result = forecast("p5", *objects)
    assert result.start is not None
    assert result.start.p50 == pytest.approx(1800.0 + 5 * 600.0, abs=1.0)
