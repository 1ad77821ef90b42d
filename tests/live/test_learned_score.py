"""A trained policy in the daemon, on a real API server: it scores nodes; if it hangs, pods are still scheduled."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

from tests.live.cluster import LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.live.test_stuck import ended, quick_page
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]
PODS = [f"pod-{number}" for number in range(6)]


def flags_with(plane: ControlPlane, directory: Path, policy: str, limit: str, port: int) -> list[str]:
    """Return flags that enable a policy, and serve pages to the administrator."""
    args = {"policy": f"tests.support.policies_on_trial:{policy}", "timeLimit": limit}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "LearnedScore", "weight": 100}]}},
                "pluginConfig": [{"name": "LearnedScore", "args": args}],
            }
        ],
    }
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    delegated = (
        f"--{description}-kubeconfig={plane.kubeconfig()}" for description in ("authentication", "authorization")
    )
    return [f"--config={path}", f"--secure-port={port}", *delegated]


def test_policy_scores_and_ends_with_the_daemon(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    flags = flags_with(plane, tmp_path, "snug", "10s", 0)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("a", "b", "c")
        with scheduler(plane.kubeconfig(), *flags) as process:
            await cluster.add_pods(*PODS, cpu="500m")
            await cluster.wait_for("all pods on nodes", bound)
            assert len({pod.node_name for pod in (await cluster.pods()).values()}) == 1
            process.send(signal.SIGTERM)
            assert await ended(process) == 0

    live(story)


def test_hanging_policy_is_counted_and_does_not_delay_pods(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    port, token = free_ports(1)[0], plane.tokens["admin"]
    flags = flags_with(plane, tmp_path, "hangs", "200ms", port)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("a", "b", "c")
        with scheduler(plane.kubeconfig(), *flags) as process:
            await cluster.add_pods(*PODS, cpu="500m")
            await cluster.wait_for("all pods on nodes", bound)
            output = await quick_page(port, "/metrics", token)
            assert 'moorage_plugin_learned_score_fallbacks_total{profile="default-scheduler",reason="slow"}' in output
            assert process.log.count("the policy failed; using the fallback") == 2, "once for each reason"

    live(story)
