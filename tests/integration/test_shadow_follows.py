"""A shadow follows reloads of its scheduler, and reads objects that only its own plugins list."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from moorage.insight.shadow.messages import AGREES, DIFFERS, Comparison
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.decisions.decision_log import read_lines
from tests.integration.test_scheduler_page import PAUSE, POLLS
from tests.integration.test_scheduler_page import scheduler as running_scheduler
from tests.integration.test_shadow import HEAD, metrics
from tests.support.ticketing import DEFINITION, PLUGIN, TICKETS, ticket
from tests.unit.insight.page.clusters import node
from tests.unit.insight.page.clusters import pod as content

ROOMY = {"pods": "5000"}
SHOP = "/api/v1/namespaces/shop/pods"
PACKING = (
    HEAD
    + """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
)
ONLY_N3 = (
    HEAD
    + """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n3]}]}]
"""
)
SPREADING = HEAD + "profiles: [{schedulerName: default-scheduler}]\n"


class Watched:
    """The log of a shadow, and the API server on which pods are created until it reports a decision."""

    def __init__(self, directory: Path) -> None:
        self._kubeconfig, self.log = directory / "kubeconfig", directory / "shadow.jsonl"
        self._count = 0

    def compared(self) -> list[Comparison]:
        """Return the shadow's log so far."""
        return [*read_lines(self.log, Comparison, written_by="--shadow-log")] if self.log.exists() else []

    async def create(self, path: str, obj: dict[str, Any]) -> None:
        async with ApiClient(load_connection(str(self._kubeconfig))) as client:
            await client.request("POST", path, json.dumps(obj).encode())

    async def pods_until(self, is_so: Callable[[Comparison], bool], **labels: str) -> Comparison:
        """Create pods one by one until the shadow reports the expected decision for one of them."""
        started = self._count
        for _ in range(POLLS):
            self._count += 1
            obj = content(f"web-{self._count}", "1m")
            obj["metadata"]["labels"] = labels
            await self.create(SHOP, obj)
            await asyncio.sleep(PAUSE)
            for item in self.compared():
                if int(item.pod.rpartition("-")[2]) > started and is_so(item):
                    return item
        raise AssertionError(self.compared()[-3:])


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(POLLS):
        if await is_so():
            return
        await asyncio.sleep(PAUSE)
    raise AssertionError("it is never so")


def test_shadow_compares_with_the_reloaded_configuration(tmp_path: Path) -> None:
    """A shadow that continued with the previous plugins could not explain the choice of n3, and would be unsure."""
    config, shadow, watched = tmp_path / "config.yaml", tmp_path / "shadow.yaml", Watched(tmp_path)
    shadow.write_text(PACKING)
    contents = (
        *(node(name, allocatable=ROOMY) for name in ("n1", "n2", "n3")),
        content("half", "2", node="n2"),
        content("little", "1", node="n3"),
    )
    access = f"clientConnection: {{kubeconfig: {tmp_path / 'kubeconfig'}}}\nleaderElection: {{leaderElect: false}}\n"
    config.write_text(SPREADING + access)
    flags = (f"--config={config}", f"--shadow={shadow}", f"--shadow-log={watched.log}")

    async def story() -> None:
        async with (
            running_scheduler(tmp_path, *flags, contents=contents) as (url, token),
            aiohttp.ClientSession() as client,
        ):

            async def wait_for_shadow() -> bool:
                return "moorage_shadow_up 1.0" in await metrics(client, url, token)

            async def is_reloaded() -> bool:
                return 'moorage_config_reloads_total{result="success"} 1.0' in await metrics(client, url, token)

            await until(wait_for_shadow)
            before = await watched.pods_until(lambda item: item.result == DIFFERS)
            assert (before.node, before.shadow_node, before.because) == ("n1", "n2", "NodeResourcesFit")
            config.write_text(ONLY_N3 + access)
            await until(is_reloaded)
            # The previous shadow may still report a few pods, without NodeAffinity.
            after = await watched.pods_until(lambda item: item.because == "NodeAffinity")
            assert (after.result, after.node, after.shadow_node) == (DIFFERS, "n3", "n2")
            assert after.in_charge["n2"].plugin == "NodeAffinity"

    asyncio.run(story())


def test_shadow_has_informers_for_kinds_that_only_its_plugins_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler does not list tickets: the shadow reads existing and new ones itself."""
    # Processes do not import from the current directory.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    shadow, watched = tmp_path / "shadow.yaml", Watched(tmp_path)
    shadow.write_text(
        HEAD + "profiles: [{schedulerName: default-scheduler, plugins: {preFilter: {enabled: [{name: Ticketing}]}}}]\n"
    )
    flags = (f"--shadow={shadow}", f"--shadow-plugin={PLUGIN}", f"--shadow-log={watched.log}")

    async def story() -> None:
        async with running_scheduler(tmp_path, *flags, contents=(node("n1", allocatable=ROOMY),)):
            await watched.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
            await watched.create(TICKETS.path(namespace="shop"), in_shop("gold"))
            await watched.pods_until(lambda item: item.result == AGREES, ticket="gold")
            rejected = await watched.pods_until(lambda item: item.result == DIFFERS, ticket="copper")
            assert (rejected.node, rejected.shadow_node, rejected.because) == ("n1", "", "Ticketing")
            assert "there is no ticket copper" in rejected.message
            await watched.create(TICKETS.path(namespace="shop"), in_shop("copper"))
            await watched.pods_until(lambda item: item.result == AGREES, ticket="copper")

    asyncio.run(story())


def in_shop(name: str) -> dict[str, Any]:
    obj = ticket(name, approved=True)
    return {**obj, "metadata": {**obj["metadata"], "namespace": "shop"}}
