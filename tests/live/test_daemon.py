"""The daemon for operators: signals, pages, leadership, and its errors."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.live.cluster import LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.live.serving import page
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]


def test_pages_metrics_and_debugger_are_served(plane: ControlPlane, live: Live) -> None:
    port, kubeconfig = free_ports(1)[0], plane.kubeconfig()
    flags = [f"--secure-port={port}"]
    flags += [f"--{description}-kubeconfig={kubeconfig}" for description in ("authentication", "authorization")]

    async def story(cluster: LiveCluster) -> None:
        with scheduler(kubeconfig, *flags) as process:
            await cluster.add_nodes("n1")
            await cluster.add_pods("p1")
            await cluster.wait_for("the pod", lambda pods: bound(pods, ["p1"]))
            token = plane.tokens["admin"]
            assert await asyncio.to_thread(page, port, "/readyz") == "ok"
            assert await asyncio.to_thread(page, port, "/metrics") == "403"
            assert await asyncio.to_thread(page, port, "/metrics", "false") == "401"
            metrics = await asyncio.to_thread(page, port, "/metrics", token)
            assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in metrics
            assert "kube_pod_resource_request" in await asyncio.to_thread(page, port, "/metrics/resources", token)
            process.send(signal.SIGUSR2)
            await process.logged("nodes agree with the API")
            await process.logged("pods agree with the API")
            assert process.stop() == 0

    live(story)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LONG_LEASE = (
    "--leader-elect-lease-duration=2h",
    "--leader-elect-renew-deadline=1h",
    "--leader-elect-retry-period=500ms",
    "--leader-elect-resource-name=long",
)


def test_standby_takes_over_immediately_after_a_regular_stop(plane: ControlPlane, live: Live) -> None:
    """A lease of two hours is released, not left to expire."""

    async def story(cluster: LiveCluster) -> None:
        kubeconfig = plane.kubeconfig()
        with scheduler(kubeconfig, *LONG_LEASE, leader_elect=True) as first:
            await first.logged("became leader")
            with scheduler(kubeconfig, *LONG_LEASE, leader_elect=True) as second:
                await second.logged("Attempting to acquire leader lease...")
                await cluster.add_nodes("n1")
                await cluster.add_pods("p1")
                await cluster.wait_for("the leader binds", bound)
                assert first.stop() == 0
                await second.logged("became leader")
                await cluster.add_pods("p2")
                await cluster.wait_for("its successor binds", bound)
                assert second.stop() == 0
        lease = await cluster.client.request("GET", f"{LEASES}/long")
        assert not msgspec.json.decode(lease)["spec"].get("holderIdentity")

    live(story)


@pytest.mark.parametrize("delay", [True, False])
def test_caches_can_be_filled_after_the_election(plane: ControlPlane, live: Live, delay: bool) -> None:
    config = plane.directory / "delayed.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"delayCacheUntilActive: {str(delay).lower()}\nclientConnection: {{kubeconfig: {plane.kubeconfig()}}}\n"
    )

    async def story(cluster: LiveCluster) -> None:
        with scheduler(plane.kubeconfig(), f"--config={config}", leader_elect=True) as process:
            await cluster.add_nodes("n1")
            await cluster.add_pods("p1")
            await cluster.wait_for("the pod", lambda pods: bound(pods, ["p1"]))
            assert process.stop() == 0

    live(story)


def test_rejected_credentials_are_reported(plane: ControlPlane) -> None:
    plane.tokens["nobody"] = "false"
    with scheduler(plane.kubeconfig("nobody")) as process:
        assert process.wait() == 1
        assert "the server rejected the credentials" in process.log
        assert "Traceback" not in process.log
