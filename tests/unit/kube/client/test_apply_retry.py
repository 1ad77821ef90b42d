"""A change that cannot be applied: relisted once, then skipped if it still fails; other objects are unaffected."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.support.fault_server import FaultServer

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.kinds import Kind
from moorage.kube.api.pod import Pod
from moorage.kube.client.apply_retry import ApplyRetry
from moorage.kube.client.informer import Informers
from moorage.kube.client.list_watch import Change

PODS = "/api/v1/pods"


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "labels": labels}, "spec": {}}


class Reader:
    """Applies changes of pods like the scheduler; ``fails`` selects the failing calls."""

    def __init__(self, fails: Callable[[Pod], bool]) -> None:
        self.clock = VirtualClock()
        self.server = FaultServer(self.clock)
        self.known: dict[str, Pod] = {}
        self.counted: list[str] = []
        self.retry = ApplyRetry(self.counted.append)
        self.informers = Informers(self.server.client(), [Pod], self.take)
        self.retry.relist = self.informers.relist
        self.fails = fails

    def take(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            adjusted = self.retry.adjust(kind, change)
            if adjusted is None:
                continue
            try:
                self.apply(adjusted)
            except Exception:
                self.retry.failed(kind, adjusted, self.apply)
            else:
                self.retry.succeeded(kind, adjusted)

    def apply(self, change: Change[Pod]) -> None:
        if change.before is not None:
            del self.known[change.before.name]
        if change.after is not None:
            assert change.after.name not in self.known
            self.known[change.after.name] = change.after
            if self.fails(change.after):
                raise KeyError("an index that does not know it")

    @property
    def lists(self) -> int:
        return sum("watch" not in request.query for request in self.server.requests)

    def run(self, story: Callable[["Reader"], Awaitable[None]]) -> None:
        async def main() -> None:
            running = asyncio.create_task(self.informers.run())
            await story(self)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        run_virtual(main(), self.clock)


def test_temporary_failure_is_fixed_by_one_list() -> None:
    failures = iter([True])

    async def story(reader: Reader) -> None:
        for name in ("good", "bad"):
            reader.server.put(PODS, pod(name))
        await asyncio.sleep(60)
        assert {*reader.known} == {"good", "bad"}
        assert (reader.lists, reader.counted, reader.retry.failed_objects) == (2, ["pods"], {})

    Reader(lambda pod: pod.name == "bad" and next(failures, False)).run(story)


def test_repeatedly_failing_object_is_skipped_until_it_changes() -> None:
    async def story(reader: Reader) -> None:
        for name in ("good", "bad"):
            reader.server.put(PODS, pod(name))
        await asyncio.sleep(600)
        assert {*reader.known} == {"good"}
        assert (reader.lists, len(reader.counted)) == (2, 2), "it is not tried for ever"
        reader.server.put(PODS, pod("late"))
        await asyncio.sleep(5)
        assert {*reader.known} == {"good", "late"}
        reader.server.put(PODS, pod("bad", mended="yes"))
        await asyncio.sleep(5)
        assert {*reader.known} == {"good", "late", "bad"}
        assert not reader.retry.failed_objects

    Reader(lambda pod: pod.name == "bad" and not pod.labels).run(story)


def test_failed_update_removes_the_previous_object() -> None:
    async def story(reader: Reader) -> None:
        reader.server.put(PODS, pod("web"))
        await asyncio.sleep(5)
        reader.server.put(PODS, pod("web", poison="yes"))
        await asyncio.sleep(60)
        assert not reader.known
        reader.server.put(PODS, pod("web"))
        await asyncio.sleep(5)
        assert {*reader.known} == {"web"}

    Reader(lambda pod: "poison" in pod.labels).run(story)


def test_deleted_object_is_no_longer_skipped() -> None:
    async def story(reader: Reader) -> None:
        reader.server.put(PODS, pod("bad"))
        await asyncio.sleep(60)
        assert reader.retry.failed_objects
        reader.server.remove(PODS, "shop/bad")
        await asyncio.sleep(60)
        assert not reader.retry.failed_objects

    Reader(lambda _pod: True).run(story)
