"""The scheduler, `explain` and `snapshot` on the API server of MOORAGE_KUBERNETES, which may be older: `make skew`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane

MOORAGE: Final = (sys.executable, "-c", "from moorage.cli.main import main; main()")
#: Gates for kinds that older servers do not have.
NEW_KINDS: Final = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"


def moorage(plane: ControlPlane, *arguments: str) -> str:
    """Run a command of Moorage on the cluster; return its output."""
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig()), "COLUMNS": "160"}
    result = subprocess.run([*MOORAGE, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_pods_are_placed_and_pending_ones_explained(
    plane: ControlPlane, live: Callable[[Story], None], tmp_path: Path
) -> None:
    saved = tmp_path / "snapshot.json"

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1", "n2")
        with scheduler(plane.kubeconfig()) as process:
            await cluster.add_pods("web", "db")
            await cluster.add_pods("too-big", cpu="100")
            await cluster.wait_for("small pods have nodes", lambda pods: bound(pods, ["web", "db"]))
            await cluster.event("FailedScheduling", "too-big")
            assert process.stop() == 0
            assert not [line for line in process.log.splitlines() if line.startswith("E")], process.log
        explained = moorage(plane, "explain", "too-big")
        assert "Insufficient cpu" in explained
        moorage(plane, "snapshot", str(saved))
        assert moorage(plane, "explain", "too-big", "--snapshot", str(saved)) == explained

    live(story)


def test_kinds_that_the_server_lacks_are_detected(plane: ControlPlane, live: Callable[[Story], None]) -> None:
    """Gates for newer kinds do not stop scheduling; the log names what is missing."""

    async def story(cluster: LiveCluster) -> None:
        answer = await cluster.client.request("GET", "/apis/scheduling.k8s.io")
        versions = {item["version"] for item in msgspec.json.decode(answer)["versions"]}
        await cluster.add_nodes("n1")
        with scheduler(plane.kubeconfig(), NEW_KINDS) as process:
            await cluster.add_pods("web")
            await cluster.wait_for("web has a node", lambda pods: bound(pods, ["web"]))
            assert process.stop() == 0
            if versions == {"v1"}:
                assert "podgroups" in process.log.lower(), process.log

    live(story)
