"""An API server that is slow, rejects, fails or sends invalid data: pods are bound, and no report is misleading."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.faulty import FaultyServer, Refusal, without_sense
from tests.live.scheduler import scheduler
from tests.live.serving import metric
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Story], None]

PODS: Final = 120
NODES: Final = 3
MALFORMED: Final = "moorage_malformed_objects_total"
READS: Final = {"/version": 2, "/api": 12}
WRITES: Final = r"^(POST|PATCH) "


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


TROUBLE: Final = {
    "requests to retry later": {"refusals": [Refusal(WRITES, 429, share=0.3, times=60, retry_after="1")]},
    "reads are rejected for a while": {
        "refusals": [Refusal(f"^GET {path}", 429, times=times, retry_after="1") for path, times in READS.items()]
    },
    "a third of the writes fail": {"refusals": [Refusal(WRITES, 500, share=0.3, times=60)]},
    "lists and watches fail": {"refusals": [Refusal("^GET /api", 500, share=0.5, times=20)]},
    "the service is unavailable": {"refusals": [Refusal("", 503, share=0.3, times=60)]},
    "all responses are slow": {"slowest": 1.0},
}


@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)
def test_pods_are_bound_despite_server_errors(plane: ControlPlane, live: Live, trouble: dict[str, object]) -> None:
    """There is just enough capacity: a pod that keeps its reservation after a failed binding is detected."""

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*names("node", NODES), cpu="4")
        await cluster.add_pods(*names("web", PODS), cpu="100m")
        server = FaultyServer(plane, **trouble)  # type: ignore[arg-type]
        async with server.running() as kubeconfig:
            with scheduler(kubeconfig) as process:
                await cluster.wait_for("all pods are bound", bound)
                assert process.is_running
                assert "Traceback" not in process.log
        assert server.rejected or server.slowest

    live(story)


NONSENSE: Final = {
    "a pod with a text as spec": ("broken", "spec", "word"),
    "a pod with a number as labels": ("broken", "metadata", {"name": "broken", "namespace": "default", "labels": 3}),
    "a node with a list as allocatable": ("node-broken", "status", {"allocatable": ["much"]}),
    "a node with an invalid quantity": ("node-broken", "status", {"allocatable": {"cpu": "lots"}}),
}


@pytest.mark.parametrize(("name", "key", "nonsense"), NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("is_first", [True, False], ids=["listed", "watched"])
def test_malformed_data_is_skipped_reported_and_counted(
    plane: ControlPlane, live: Live, name: str, key: str, nonsense: object, is_first: bool
) -> None:
    port, kubeconfig = free_ports(1)[0], plane.kubeconfig()
    flags = [f"--{description}-kubeconfig={kubeconfig}" for description in ("authentication", "authorization")]

    async def add_broken(cluster: LiveCluster) -> None:
        add = cluster.add_nodes if name.startswith("node") else cluster.add_pods
        await add(name)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0", cpu="4")
        if is_first:
            await add_broken(cluster)
        async with FaultyServer(plane, garble=without_sense(name, key, nonsense)).running() as faulty:
            with scheduler(faulty, f"--secure-port={port}", *flags) as process:
                await cluster.add_pods("first")
                await cluster.wait_for("a pod is bound", lambda pods: bound(pods, ["first"]))
                if not is_first:
                    await add_broken(cluster)
                await process.logged("malformed object skipped")
                await cluster.add_pods("second")
                await cluster.wait_for("another is bound", lambda pods: bound(pods, ["second"]))
                pods = await cluster.pods()
                assert {pods[each].node_name for each in ("first", "second")} == {"node-0"}
                kind = "Node" if name.startswith("node") else "Pod"
                counted = await asyncio.to_thread(
                    metric, port, "moorage_malformed_objects_total", plane.tokens["admin"]
                )
                assert counted[f'resource="{kind}"'] >= 1
                assert process.is_running
                assert "Traceback" not in process.log
        # Unreadable pods are not scheduled.
        await cluster.client.request("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")

    live(story)
