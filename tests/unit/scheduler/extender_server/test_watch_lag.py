"""Rejections of an extender wait for changes that kube-scheduler has seen earlier."""

import asyncio
from collections.abc import Callable

from moorage.kube.api.meta import KubeObject
from moorage.scheduler.extender_server.watch_lag import MAX_LAG, SETTLE_SECONDS, WatchLag
from moorage.testing import in_virtual_time, make_node, make_pod

NODE = make_node("n1")
LABELED = make_node("n1", labels={"disk": "ssd"})
PENDING = make_pod("web")


class Follower:
    """A cache that follows a watch; the pod is feasible once the node is labeled."""

    def __init__(self) -> None:
        self.lag = WatchLag()
        self.node, self.evaluations = NODE, 0
        self.apply = self.lag.wrap_apply(self._take)

    def _take(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        if isinstance(after, type(NODE)):
            self.node = after

    def _evaluate(self) -> tuple[str, bool]:
        self.evaluations += 1
        is_feasible = self.node.labels.get("disk") == "ssd"
        return ("feasible" if is_feasible else "rejected"), not is_feasible

    async def ask(self, uid: str = "u", is_behind: Callable[[], bool] = lambda: False) -> tuple[str, float]:
        """Return the response and its delay."""
        now = asyncio.get_running_loop().time
        began, (result, is_rejected) = now(), self._evaluate()
        if is_rejected:
            result = await self.lag.settle(uid, result, self._evaluate, is_behind)
        return result, round(now() - began, 3)

    def later(self, seconds: float, after: KubeObject, before: KubeObject | None = NODE) -> None:
        asyncio.get_running_loop().call_later(seconds, self.apply, before, after)


@in_virtual_time
async def test_first_rejection_waits_briefly() -> None:
    follower = Follower()
    assert await follower.ask() == ("rejected", SETTLE_SECONDS)
    follower.later(SETTLE_SECONDS / 2, LABELED)
    assert await follower.ask("other") == ("feasible", SETTLE_SECONDS / 2)


@in_virtual_time
async def test_change_before_the_wait_starts_is_not_missed() -> None:
    follower = Follower()
    waiting = follower.lag.settle("u", "rejected", follower._evaluate, lambda: False)
    follower.apply(NODE, LABELED)
    assert await waiting == "feasible"


@in_virtual_time
async def test_repeated_request_without_a_change_waits_for_the_change() -> None:
    follower = Follower()
    await follower.ask()
    follower.apply(PENDING, PENDING)  # kube-scheduler has written the pod's condition
    follower.later(0.6, LABELED)
    assert await follower.ask() == ("feasible", 0.6)


@in_virtual_time
async def test_change_that_does_not_help_ends_the_wait() -> None:
    follower = Follower()
    await follower.ask()
    follower.later(0.3, NODE)
    assert await follower.ask() == ("rejected", 0.3 + SETTLE_SECONDS)


@in_virtual_time
async def test_repeated_requests_of_many_pods_wait_once() -> None:
    """A change of a kind that is not watched retries every pending pod."""
    follower = Follower()
    for uid in "abc":
        await follower.ask(uid)
    assert [await follower.ask(uid) for uid in "abc"] == [
        ("rejected", MAX_LAG),
        ("rejected", SETTLE_SECONDS),
        ("rejected", SETTLE_SECONDS),
    ]
    follower.later(0.5, LABELED)
    assert await follower.ask("c") == ("feasible", 0.5), "a second such change"


@in_virtual_time
async def test_request_about_unknown_objects_waits_until_they_arrive() -> None:
    follower, unknown = Follower(), [1]
    asyncio.get_running_loop().call_later(0.4, unknown.clear)
    follower.later(0.4, PENDING, before=None)
    assert await follower.ask(is_behind=lambda: bool(unknown)) == ("rejected", round(0.4 + SETTLE_SECONDS, 3))
    assert await follower.ask("other", is_behind=lambda: True) == ("rejected", MAX_LAG)


@in_virtual_time
async def test_constant_changes_do_not_prolong_the_wait() -> None:
    follower = Follower()
    for number in range(1, 100):
        follower.later(number * SETTLE_SECONDS / 4, NODE)
    assert await follower.ask() == ("rejected", SETTLE_SECONDS)
    assert follower.evaluations < 6
