"""A shadow of a scheduler: its decisions, and its independence from the scheduler."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from moorage.cluster.offline import DiscardingApi
from moorage.common.clock import SystemClock
from moorage.insight.explain.explain_events import make_explain_request
from moorage.insight.shadow import shadow_process
from moorage.insight.shadow.feed import ShadowFeed
from moorage.insight.shadow.messages import AGREES, DIFFERS, ERROR, Comparison
from moorage.insight.shadow.report import read_report
from moorage.insight.shadow.shadow_process import Shadow, ShadowEvents, ShadowPlan
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME, find_kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.engine.outcomes import Outcome, Placed
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.wiring.assembly import assemble, find_watched_kinds
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing.builders import make_node, make_pod
from tests.integration.test_scheduler_page import MOORAGE, PAUSE, POLLS
from tests.integration.test_scheduler_page import scheduler as running_scheduler
from tests.support.generated_objects import objects
from tests.unit.insight.page.clusters import node
from tests.unit.insight.page.clusters import pod as content

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SAME = HEAD + "profiles: [{schedulerName: default-scheduler}]\n"
IMAGES = HEAD + (
    "profiles: [{schedulerName: default-scheduler, plugins: {score: {"
    "disabled: [{name: ImageLocality}], enabled: [{name: ImageLocality, weight: 20}]}}}]\n"
)
IN_FILTER = "profiles: [{schedulerName: default-scheduler, plugins: {filter: {enabled: [{name: NAME}]}}}]\n"
IMAGE = {"app:1": 900 << 20}
PLUGINS = "tests.integration.shadow_plugins"
PATIENCE = 30.0


def filtering(plugin: str) -> str:
    return HEAD + IN_FILTER.replace("NAME", plugin)


class Seen(ShadowEvents):
    """Records the decisions of a shadow."""

    def __init__(self) -> None:
        self.comparisons: list[Comparison] = []
        self.lost: Counter[str] = Counter()
        self.ups: list[bool] = []

    def compared(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)

    def dropped(self, reason: str, count: int) -> None:
        self.lost[reason] += count

    def is_up(self, *, up: bool) -> None:
        self.ups.append(up)

    @property
    def is_shadowing(self) -> bool:
        return bool(self.ups) and self.ups[-1]


class ShadowedScheduler:
    """A scheduler with a shadow, and pods to try."""

    def __init__(self, scheduler: Scheduler, apply: Any, shadow: Shadow, feed: ShadowFeed, seen: Seen) -> None:
        self.scheduler, self.apply, self.shadow, self.feed, self.seen = scheduler, apply, shadow, feed, seen
        self.file = shadow.plan.file

    @property
    def pid(self) -> int:
        assert self.shadow.current is not None
        assert self.shadow.current.process is not None
        return self.shadow.current.process.pid

    async def place(self, *pods: Pod) -> list[Outcome]:
        """Schedule pods."""
        for pod in pods:
            self.apply(None, pod)
        outcomes = [await self.scheduler.schedule_next() for _ in pods]
        return [outcome for outcome in outcomes if outcome is not None]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                await asyncio.sleep(0.02)


@asynccontextmanager
async def run_shadow(
    directory: Path, config: str, *nodes: Node, plugins: tuple[str, ...] = (), **plan: Any
) -> AsyncIterator[ShadowedScheduler]:
    """Run a scheduler without writes, with a shadow in a separate process."""
    file = directory / "shadow.yaml"
    file.write_text(config)
    policy = load_policy(collect_plugins())
    feed, seen = ShadowFeed(SystemClock(), plan.pop("percent", 100.0)), Seen()
    parts = assemble(policy, DiscardingApi(), SystemClock(), observers=(feed,))
    apply = feed.wrap_apply(parts.scheduler.handlers.apply)
    for each in nodes:
        apply(None, each)
    await parts.scheduler.lifecycle.start()
    plan_ = ShadowPlan(file, tuple(f"{PLUGINS}:{name}" for name in plugins), **plan)
    shadow = Shadow(plan_, feed, parts.scheduler, lambda: make_explain_request(policy, "", ()), seen)
    task = asyncio.create_task(shadow.run())
    try:
        yield ShadowedScheduler(parts.scheduler, apply, shadow, feed, seen)
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await parts.background.drain()
        await parts.scheduler.lifecycle.close()
        parts.close()


def run(story: Any) -> None:
    """Run a scenario on the event loop of the daemon, which handles closing pipes differently."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story)


NODES = (make_node("n1"), make_node("n2", images=IMAGE))


def pod(name: str, **more: Any) -> Pod:
    return make_pod(name, uid=name, requests={"cpu": "100m", "memory": "1Gi"}, **more)


def test_weight_changes_decisions_and_the_plugin_is_named(tmp_path: Path) -> None:
    """Half of n2 is used, so the scheduler prefers n1; the shadow prefers the image on n2."""

    async def story() -> None:
        async with run_shadow(tmp_path, IMAGES, *NODES) as both:
            both.apply(None, make_pod("old", uid="old", node="n2", requests={"cpu": "2", "memory": "16Gi"}))
            await both.until(lambda: both.seen.is_shadowing)
            outcomes = await both.place(pod("web-1"), pod("other", image="other:1"), pod("big", cpu="9"))
            assert [outcome.node_name for outcome in outcomes[:2] if isinstance(outcome, Placed)] == ["n1", "n1"]
            await both.until(lambda: len(both.seen.comparisons) == 3)
        selected = {item.pod: item for item in both.seen.comparisons}
        moved = selected["default/web-1"]
        assert (moved.result, moved.node, moved.shadow_node, moved.because) == (DIFFERS, "n1", "n2", "ImageLocality")
        for said, best in ((moved.in_charge, "n1"), (moved.shadow, "n2")):
            assert max(said, key=lambda name: said[name].total or 0) == best
        weighted = {
            who: (said["n2"].scores or {})["ImageLocality"].weighted
            for who, said in (("in charge", moved.in_charge), ("shadow", moved.shadow))
        }
        assert weighted["shadow"] == 20 * weighted["in charge"] > 0
        assert selected["default/other"].result == AGREES
        assert selected["default/big"].result == AGREES

    def pod(name: str, cpu: str = "100m", **more: Any) -> Pod:
        return make_pod(name, uid=name, requests={"cpu": cpu, "memory": "1Gi"}, **more)

    run(story())


def test_same_configuration_never_differs_while_the_cluster_changes(tmp_path: Path) -> None:
    """Pods and nodes change, and bindings fail: the shadow sees each decision with the cluster of that time."""

    async def story() -> None:
        nodes = [make_node(f"n{number}", images=IMAGE if number % 3 else {}) for number in range(12)]
        async with run_shadow(tmp_path, SAME, *nodes) as both:
            for number in range(20):
                both.apply(
                    None,
                    make_pod(
                        f"old-{number}",
                        uid=f"old-{number}",
                        node=f"n{number % 12}",
                        requests={"cpu": f"{100 + 37 * number}m"},
                    ),
                )
            await both.until(lambda: both.seen.is_shadowing)
            placed: list[tuple[Pod, str]] = []
            for number in range(120):
                new = make_pod(f"p{number}", uid=f"p{number}", requests={"cpu": f"{50 + 13 * (number % 17)}m"})
                (outcome,) = await both.place(new)
                assert isinstance(outcome, Placed)
                placed.append((new, outcome.node_name))
                if number % 3 == 0:  # the API confirms
                    old, node = placed[number // 2]
                    if both.scheduler.cache.is_assumed(old):
                        both.apply(old, old.on_node(node))
                if number % 7 == 0 and both.scheduler.cache.is_assumed(new):  # a binding fails
                    both.scheduler.cache.forget(new.on_node(outcome.node_name))
                if number % 10 == 0:
                    gone, node = placed[0]
                    placed[0] = placed[number]
                    if not both.scheduler.cache.is_assumed(gone):
                        both.apply(gone.on_node(node), None)
                if number % 30 == 29:
                    both.apply(None, make_node(f"new-{number}"))
                await both.until(lambda: not both.feed.pending_requests)
        assert Counter(item.result for item in both.seen.comparisons) == {AGREES: 120}
        assert not both.seen.lost

    run(story())


def test_shadow_receives_objects_of_every_watched_kind(tmp_path: Path) -> None:
    """Objects that exist at its start, and objects that are created later."""

    async def story() -> None:
        async with run_shadow(tmp_path, SAME, *NODES) as both:
            kinds = {*find_watched_kinds(both.scheduler.objects)} - {Node, Pod}
            samples = [next(objects(find_kind(kind)))[1] for kind in kinds]
            assert {"ReplicaSet", "StatefulSet", "ReplicationController"} <= {sample["kind"] for sample in samples}

            def create(name: str) -> None:
                for sample in samples:
                    named = {**sample, "metadata": {"name": name, "uid": name}}
                    both.apply(None, convert(BY_NAME[sample["kind"]].type, named))

            create("existing")
            await both.until(lambda: both.seen.is_shadowing)
            create("later")
            await both.place(pod("web"))
            await both.until(lambda: any(item.pod == "default/web" for item in both.seen.comparisons))
        assert {item.result for item in both.seen.comparisons} == {AGREES}
        assert both.seen.ups.count(True) == 1
        assert not both.seen.lost

    run(story())


def test_additional_filter_of_the_shadow_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        config = filtering("Refuses")
        async with run_shadow(tmp_path, config, make_node("n1"), plugins=("Refuses",)) as both:
            await both.until(lambda: both.seen.is_shadowing)
            await both.place(pod("web"))
            await both.until(lambda: bool(both.seen.comparisons))
        (found,) = both.seen.comparisons
        assert (found.result, found.node, found.shadow_node, found.because) == (DIFFERS, "n1", "", "Refuses")
        assert "one is not enough" in found.message

    run(story())


def test_equal_nodes_are_not_a_difference(tmp_path: Path) -> None:
    async def story() -> None:
        async with run_shadow(tmp_path, IMAGES, *(make_node(f"n{number}") for number in range(9))) as both:
            await both.until(lambda: both.seen.is_shadowing)
            for number in range(9):
                await both.place(pod(f"p{number}"))
            await both.until(lambda: len(both.seen.comparisons) == 9)
        assert {item.result for item in both.seen.comparisons} == {AGREES}

    run(story())


def test_only_a_percentage_of_the_pods_is_compared(tmp_path: Path) -> None:
    async def story() -> None:
        async with run_shadow(tmp_path, SAME, make_node("n1"), percent=30.0) as both:
            await both.until(lambda: both.seen.is_shadowing)
            for number in range(100):
                await both.place(make_pod(f"p{number}", uid=f"p{number}"))
                await both.until(lambda: not both.feed.pending_requests)
        assert 10 < len(both.seen.comparisons) < 50
        assert not both.seen.lost

    run(story())


def test_slow_shadow_compares_fewer_pods_and_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "RESPONSE_SECONDS", 1.0)
    monkeypatch.setattr(shadow_process, "MAX_REQUESTS", 32)
    monkeypatch.setattr(shadow_process, "MAX_FAILURES", 1)

    async def story() -> None:
        async with run_shadow(tmp_path, filtering("Sleeps"), *NODES, plugins=("Sleeps",)) as both:
            await both.until(lambda: both.seen.is_shadowing)
            for number in range(60):
                (outcome,) = await both.place(make_pod(f"p{number}", uid=f"p{number}"))
                assert isinstance(outcome, Placed)
            assert both.seen.lost == {shadow_process.BUSY: 60 - shadow_process.MAX_REQUESTS}
            await both.until(lambda: not both.seen.is_shadowing)
            assert both.feed.send is None
            assert both.seen.lost[shadow_process.LOST] == shadow_process.MAX_REQUESTS
            assert isinstance((await both.place(pod("after")))[0], Placed)

    run(story())


def test_shadow_with_a_raising_plugin_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_ERRORS", 5)

    async def story() -> None:
        async with run_shadow(tmp_path, filtering("Raises"), *NODES, plugins=("Raises",)) as both:
            await both.until(lambda: both.seen.is_shadowing)
            for number in range(5):
                assert isinstance((await both.place(pod(f"p{number}")))[0], Placed)
            await both.until(lambda: not both.seen.is_shadowing)
            assert {item.result for item in both.seen.comparisons} == {ERROR}
            assert "the shadow's plugin raises" in both.seen.comparisons[0].message
            assert isinstance((await both.place(pod("after")))[0], Placed)
            both.file.write_text(SAME)  # repaired: the shadow works
            await both.until(lambda: both.seen.is_shadowing)
            await both.place(pod("later"))
            await both.until(lambda: both.seen.comparisons[-1].pod == "default/later")
            assert both.seen.comparisons[-1].result == AGREES

    run(story())


@pytest.mark.parametrize("how", ["exits", "is killed"])
def test_crashing_shadow_is_restarted_and_then_disabled(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_process, "MAX_FAILURES", 2)

    async def story() -> None:
        config = filtering("Exits") if how == "exits" else SAME
        async with run_shadow(tmp_path, config, *NODES, plugins=("Exits",) if how == "exits" else ()) as both:
            for number in range(2):
                await both.until(lambda: both.seen.is_shadowing)
                if how == "is killed":
                    os.kill(both.pid, signal.SIGKILL)
                (outcome,) = await both.place(pod(f"p{number}"))
                assert isinstance(outcome, Placed)
                await both.until(lambda: not both.seen.is_shadowing)
            for _ in range(50):
                await asyncio.sleep(0.02)
            assert (both.seen.ups.count(True), both.feed.send) == (2, None)

    run(story())


def test_shadow_with_too_much_memory_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_FAILURES", 1)
    monkeypatch.setattr(shadow_process, "CHECK_SECONDS", 0.1)

    async def story() -> None:
        eats = filtering("Eats")
        async with run_shadow(tmp_path, eats, *NODES, plugins=("Eats",), max_memory=400 << 20) as both:
            await both.until(lambda: both.seen.is_shadowing)
            for number in range(4):
                await both.place(pod(f"p{number}"))
            await both.until(lambda: not both.seen.is_shadowing)
            assert isinstance((await both.place(pod("after")))[0], Placed)

    run(story())


@pytest.mark.parametrize(
    "config", [HEAD + "profiles: [{plugins: {score: {enabled: [{name: Nonsense}]}}}]\n", "{", filtering("Broken")]
)
def test_invalid_configuration_disables_only_the_shadow(tmp_path: Path, config: str) -> None:
    async def story() -> None:
        async with run_shadow(tmp_path, config, *NODES, plugins=("Broken",)) as both:
            await both.until(lambda: bool(both.seen.ups))
            assert both.seen.ups[-1] is False
            assert isinstance((await both.place(pod("web")))[0], Placed)

    run(story())


def test_shadow_that_does_not_read_changes_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stopped process is like a blocked one: the buffer fills, and its content is discarded."""
    monkeypatch.setattr(shadow_process, "MAX_FAILURES", 1)
    monkeypatch.setattr(shadow_process, "MAX_BUFFER", 1 << 20)

    async def story() -> None:
        async with run_shadow(tmp_path, SAME, *NODES) as both:
            await both.until(lambda: both.seen.is_shadowing)
            os.kill(both.pid, signal.SIGSTOP)
            number = 0
            while both.feed.send is not None:
                for _ in range(200):
                    number += 1
                    both.apply(None, make_pod(f"q{number}", uid=f"q{number}", node="n1", labels={"x": "y" * 60}))
                assert number < 100_000
                assert both.shadow.current is not None
                assert both.shadow.current.pending_bytes < 3 << 20
                await asyncio.sleep(0.01)
            await both.until(lambda: not both.seen.is_shadowing)
            assert isinstance((await both.place(pod("after")))[0], Placed)

    run(story())


REFUSED = {
    "a missing file": ("--shadow=/nowhere.yaml", "/nowhere.yaml: the file does not exist"),
    "an invalid percentage": ("--shadow=FILE --shadow-percent=0", "0 is not a percentage above 0"),
    "an unwritable log": ("--shadow=FILE --shadow-log=/no/where", "/no/where: the file cannot be written"),
}


@pytest.mark.parametrize(("flags", "problem"), REFUSED.values(), ids=REFUSED)
def test_invalid_flags_are_rejected_at_the_start(tmp_path: Path, flags: str, problem: str) -> None:
    (tmp_path / "shadow.yaml").write_text(SAME)
    given = flags.replace("FILE", str(tmp_path / "shadow.yaml")).split()
    command = [MOORAGE, "scheduler", *given, "--master=http://127.0.0.1:1", "--leader-elect=false", "--secure-port=0"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (result.returncode, problem in result.stderr) == (1, True), result.stderr


def test_scheduler_counts_and_logs_shadow_decisions(tmp_path: Path) -> None:
    """Two nodes, one of them half full, and a shadow that fills nodes one by one."""
    config, log = tmp_path / "shadow.yaml", tmp_path / "shadow.jsonl"
    strategy = "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}"
    packing = "pluginConfig: [{name: NodeResourcesFit, args: {%s}}]" % strategy  # noqa: UP031 - braces are YAML's
    config.write_text(HEAD + "profiles: [{schedulerName: default-scheduler, %s}]\n" % packing)  # noqa: UP031

    async def story() -> str:
        contents = (node("n1"), node("n2"), content("old", "2", node="n2"))
        async with (
            running_scheduler(tmp_path, f"--shadow={config}", f"--shadow-log={log}", contents=contents) as (url, token),
            aiohttp.ClientSession() as client,
        ):
            for number in range(POLLS):
                text = await metrics(client, url, token)
                if "moorage_shadow_up 1.0" in text:
                    await more(tmp_path, content(f"web-{number}", "100m"))
                if 'result="differs"' in text:
                    return text
                await asyncio.sleep(PAUSE)
        raise AssertionError(text)

    text = asyncio.run(story())
    assert 'moorage_shadow_differences_total{plugin="NodeResourcesFit",profile="default-scheduler"}' in text
    report = read_report(log)
    assert report.plugins.keys() == {"NodeResourcesFit"}
    assert {item.shadow_node for item in report.examples} == {"n2"}


async def metrics(client: aiohttp.ClientSession, url: str, token: str) -> str:
    try:
        headers = {"Authorization": f"Bearer {token}"}
        async with client.get(f"{url}/metrics", ssl=False, headers=headers) as got:
            return await got.text()
    except aiohttp.ClientConnectionError:
        return ""


async def more(directory: Path, thing: dict[str, Any]) -> None:
    async with ApiClient(load_connection(str(directory / "kubeconfig"))) as client:
        await client.request("POST", "/api/v1/namespaces/shop/pods", json.dumps(thing).encode())
