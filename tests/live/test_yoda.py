"""examples/03-yoda on a real API server, with its definition, permissions and configuration."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from moorage.kube.client.rest import ApiClient
from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.support.control_plane import ROOT, ControlPlane

EXAMPLE = ROOT / "examples" / "03-yoda"
GPU = {"scv/number": "2", "scv/memory": "8000"}


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(plane.programs / "kubectl"), f"--kubeconfig={plane.kubeconfig()}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def configuration(plane: ControlPlane, kubeconfig: Path) -> Path:
    """Write the configuration of the config map to a file."""
    config_map = yaml.safe_load((EXAMPLE / "deploy" / "config-map.yaml").read_text())
    config = yaml.safe_load(config_map["data"]["config.yaml"])
    file = plane.directory / "yoda.yaml"
    file.write_text(yaml.safe_dump({**config, "clientConnection": {"kubeconfig": str(kubeconfig)}}))
    return file


async def add_gpu_pod(cluster: LiveCluster, name: str, labels: dict[str, str]) -> None:
    spec = {"schedulerName": "yoda-scheduler", "containers": [{"name": "main", "image": "app:1"}]}
    body = {"metadata": {"name": name, "labels": labels}, "spec": {**spec, "terminationGracePeriodSeconds": 1}}
    await cluster.create("/api/v1/namespaces/default/pods", body)


async def publish(client: ApiClient, now: float) -> None:
    from yoda import sniffer

    await sniffer.publish(client, now)


def test_yoda_runs_as_deployed(
    plane: ControlPlane, live: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLE))
    # Another test may have installed Moorage with Helm and other labels.
    kubectl(plane, "delete", "deployment", "moorage", "--namespace=kube-system", "--ignore-not-found")
    kubectl(plane, "apply", "--server-side", "--validate=strict", "-k", str(EXAMPLE / "deploy"))
    kubectl(plane, "wait", "--for=condition=Established", "crd/scvs.core.run-linux.com", "--timeout=60s")
    plane.tokens["moorage"] = kubectl(plane, "create", "token", "moorage", "-n", "kube-system").strip()
    kubeconfig = plane.kubeconfig("moorage")

    async def story(cluster: LiveCluster) -> None:
        flags = [f"--config={configuration(plane, kubeconfig)}", "--plugin=yoda.plugin:Yoda"]
        flags += [f"--{description}-kubeconfig={kubeconfig}" for description in ("authentication", "authorization")]
        with scheduler(kubeconfig, *flags) as process:
            await cluster.add_nodes("gpu-1", "gpu-2", "gpu-3")
            await add_gpu_pod(cluster, "early", GPU)
            assert "had no Scv" in (await cluster.event("FailedScheduling", "early")).note
            await add_gpu_pod(cluster, "mistaken", {"scv/memory": "8GB"})
            assert "'8GB': write a whole number" in (await cluster.event("FailedScheduling", "mistaken")).note

            await publish(cluster.client, 1e9)
            await cluster.wait_for("the pod has cards", lambda pods: bound(pods, ["early"]))
            pod = (await cluster.pods())["early"]
            assert len(pod.annotations["scv/cards"].split(",")) == 2

            nonsense = {"status": {"cardList": [{"id": 0, "totalMemory": 1, "freeMemory": 2}]}}
            for name in ("gpu-1", "gpu-2", "gpu-3"):
                await cluster.merge(f"/apis/core.run-linux.com/v1/scvs/{name}", nonsense)
            await add_gpu_pod(cluster, "late", GPU)
            assert "an invalid Scv" in (await cluster.event("FailedScheduling", "late")).note
            assert process.stop() == 0
            assert not [line for line in process.log.splitlines() if "forbidden" in line.lower()]

    live(story)
    kubectl(plane, "delete", "-k", str(EXAMPLE / "deploy"), "--wait=false")
