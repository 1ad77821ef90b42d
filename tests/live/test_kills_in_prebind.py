"""The scheduler is killed while it binds volumes and devices: nothing stays half bound, nothing is given away twice."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

import pytest

from moorage.api.claims import SELECTED_NODE
from moorage.errors import NotFound
from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.devices import CLAIMS, Attacher, add_cards, add_template, device_claims, doubled, settled_devices
from tests.live.scheduler import SchedulerProcess
from tests.live.storage import (
    LOCAL,
    PROVISIONED,
    Provisioner,
    add_claims,
    add_classes,
    add_local_volumes,
    claim_volume,
    claims_of,
    ephemeral_volume,
    settled_storage,
    storage,
)
from tests.support.control_plane import ControlPlane

Live = Callable[[Story], None]

pytestmark = pytest.mark.usefixtures("controllers")

KILLS: Final = 10
PODS_PER_KIND: Final = 2
SEED: Final = int(os.environ.get("MOORAGE_SEED", "1"))
DEVICE: Final = "device"
MADE: Final = "volume to be made"
THERE: Final = "volume that is there"
NODES: Final = ("node-0", "node-1", "node-2")
REFUSALS: Final = 4
SLOWEST: Final = 1.5
"""Seconds that a volume may take to be made, or a card to be attached, in which the pod is in PreBind."""


async def make_room(cluster: LiveCluster) -> None:
    """Make room for all pods on every node: one that was half bound when the scheduler died can only go there."""
    await add_classes(cluster)
    await add_template(cluster)
    await cluster.add_nodes(*NODES, cpu="64")
    for node in NODES:
        await add_cards(cluster, node, 3 * PODS_PER_KIND * KILLS, to_be_attached=node == NODES[0])
        await add_local_volumes(cluster, node, 2 * PODS_PER_KIND * KILLS)


async def add_wave(cluster: LiveCluster, number: int) -> None:
    """Create pods with a card each, and a volume to be made, one that is there, or both."""
    for index in range(PODS_PER_KIND):
        suffix = f"{number}-{index}"
        await add_claims(cluster, f"local-{suffix}", f"both-{suffix}", storage_class=LOCAL)
        made = [ephemeral_volume(PROVISIONED)]
        volumes: dict[str, list[dict[str, Any]]] = {
            f"made-{suffix}": made,
            f"local-{suffix}": [claim_volume(f"local-{suffix}")],
            f"both-{suffix}": [claim_volume(f"both-{suffix}"), *made],
        }
        for name, own in volumes.items():
            await cluster.add_pods(name, volumes=own, resourceClaims=CLAIMS)


async def half_done(cluster: LiveCluster) -> set[str]:
    """Name what was written for pods that are not bound yet."""
    pods = await cluster.pods()
    waiting = {pod.uid: pod for pod in pods.values() if not pod.node_name}
    found = set()
    for held in (await device_claims(cluster)).values():
        if any(consumer.uid in waiting for consumer in held.status.reserved_for):
            found.add(DEVICE)
    now = await storage(cluster)
    claimed = {volume.spec.claim_ref.uid for volume in now.volumes.values() if volume.spec.claim_ref is not None}
    for name in (name for pod in waiting.values() for name in claims_of(pod)):
        claim = now.claims.get(name)
        if claim is not None and SELECTED_NODE in claim.annotations:
            found.add(MADE)
        elif claim is not None and claim.uid in claimed:
            found.add(THERE)
    return found


async def until_half_done(cluster: LiveCluster) -> None:
    async with asyncio.timeout(60):
        while not await half_done(cluster):
            await asyncio.sleep(0.02)


async def check_any_time(cluster: LiveCluster) -> None:
    """Require what needs no controller to come true: no device has two owners, and bound pods have their volumes."""
    pods = await cluster.pods()  # read first: what a bound pod lacks may not come later
    assert not doubled(list((await device_claims(cluster)).values())), "a device was allocated twice"
    assert not (problems := (await storage(cluster)).out_of_reach(pods)), f"bound too early: {problems}"


async def delete_some(cluster: LiveCluster, chance: Random) -> None:
    """Delete two pods while nobody schedules: what they were promised must be given back."""
    for pod in chance.sample(sorted((await cluster.pods()).values(), key=lambda pod: pod.name), 2):
        try:
            await cluster.client.delete(pod)
        except NotFound:
            continue


async def kill_again_and_again(cluster: LiveCluster, process: SchedulerProcess, chance: Random) -> set[str]:
    """Kill in the middle of PreBind every other time, else at any moment; return what was half done then."""
    seen: set[str] = set()
    for number in range(KILLS):
        await add_wave(cluster, number)
        process.start()
        if number % 2:
            await until_half_done(cluster)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
        else:
            await asyncio.sleep(chance.uniform(0.5, 2.5))
        process.kill()
        seen |= await half_done(cluster)
        await check_any_time(cluster)
        await delete_some(cluster, chance)
    return seen


def with_drivers(story: Callable[[LiveCluster, Random], Awaitable[None]]) -> Story:
    async def run(cluster: LiveCluster) -> None:
        chance = Random(SEED)
        provisioner = Provisioner(cluster.client, refusals=REFUSALS, slowest=SLOWEST, chance=Random(SEED))
        drivers = (provisioner, Attacher(cluster.client, SLOWEST))
        tasks = [asyncio.create_task(driver.run()) for driver in drivers]
        try:
            await story(cluster, chance)
        finally:
            for task in tasks:
                task.cancel()

    return run


def test_a_scheduler_killed_in_prebind_leaves_nothing_half_bound(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster, chance: Random) -> None:
        await make_room(cluster)
        process = SchedulerProcess(plane.kubeconfig())
        try:
            seen = await kill_again_and_again(cluster, process, chance)
            process.start()
            await cluster.wait_for("all pods are bound", bound, seconds=120)
            await settled_storage(cluster)
            await settled_devices(cluster)
            assert seen == {DEVICE, MADE, THERE}, f"the kills came at moments that tell nothing: {seen}"
        except BaseException as error:
            error.add_note(f"the scheduler's log ends:\n{process.log[-6000:]}")
            raise
        finally:
            if process.is_running:
                process.kill()
            process.log_file.unlink()

    live(with_drivers(story))
