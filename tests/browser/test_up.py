"""The web page of a running cluster: `moorage up` prints its URL, and changes appear on it."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from tests.browser.browsing import elsewhere
from tests.browser.conftest import Look

ROOT = Path(__file__).parents[2]


@contextmanager
def running(kubeconfig: Path) -> Iterator[str]:
    """Run a cluster with pending pods; yield the URL of its page."""
    command = [str(Path(sys.executable).parent / "moorage"), "up", "--nodes", "3", "--shape", "cpu=4,memory=8Gi"]
    command += ["--kubeconfig", str(kubeconfig), "-f", "examples/pending/pods.yaml"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if url := re.search(r"^Web page: (http://\S+)", line):
                    yield url[1]
                    break
                if line.startswith("nodes "):
                    pytest.fail("moorage up printed the cluster status but no URL of the page")
            else:
                pytest.fail("moorage up ended before it printed the URL of the page")
        finally:
            process.terminate()
            process.communicate()


def create_pod(kubeconfig: Path, name: str) -> None:
    """Create a pod that fits."""
    container = b'{"name": "main", "image": "m:1", "resources": {"requests": {"cpu": "100m"}}}'
    body = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%b"}, "spec": {"containers": [%b]}}'

    async def create() -> None:
        async with ApiClient(load_connection(str(kubeconfig))) as client:
            await client.request("POST", "/api/v1/namespaces/default/pods", body % (name.encode(), container))

    elsewhere(lambda: asyncio.run(create()))


def test_page_shows_new_pods_of_a_running_cluster(look: Look, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with running(kubeconfig) as address:
        window = look()
        window.page.goto(address)
        url, _, fragment = address.partition("#")
        assert fragment.startswith("token=")
        window.wait_for("Insufficient cpu")
        assert "token" not in window.page.url, "it does not stay in the address"
        window.wait_for("gated by SchedulingGates")
        window.page.click("text=Decisions")
        window.wait_for("unschedulable")
        assert "default/newcomer" not in window.text()
        create_pod(kubeconfig, "newcomer")
        window.wait_for("default/newcomer")
        window.open(url, "pod/default%2Ftoo-big")
        window.wait_for("Lower the cpu request of container cruncher from 6 to")
        window.wait_for("unschedulable")
        window.open(url)
        window.wait_for("possible fix")
        assert window.problems == []
