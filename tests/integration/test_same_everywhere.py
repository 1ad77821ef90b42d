"""One plugin in testing.Cluster and on `moorage up`; tests/live has it on a real server."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from moorage.client.kubeconfig import load_connection
from moorage.client.rest import ApiClient
from moorage.testing import Cluster, in_virtual_time
from tests.support.ticketing import DEFINITION, PLUGIN, Ticketing, admit

UP = (sys.executable, "-c", "from moorage.cli.main import main; main()", "up")
ENOUGH = 90.0


@in_virtual_time
async def test_in_a_cluster_for_tests_in_virtual_time() -> None:
    async with Cluster(nodes=2, plugins=[Ticketing], definitions=[DEFINITION]) as cluster:
        await admit(cluster.client)


@in_virtual_time
async def test_in_a_cluster_where_the_kind_is_defined_later() -> None:
    async with Cluster(nodes=2, plugins=[Ticketing]) as cluster:
        await cluster.sleep(10)
        await cluster.apply(DEFINITION)
        await admit(cluster.client)


def test_in_a_cluster_for_tests_in_real_time() -> None:
    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Ticketing], definitions=[DEFINITION]) as cluster:
            await admit(cluster.client)

    asyncio.run(story())


def test_on_a_cluster_in_a_process_of_its_own(tmp_path: Path) -> None:
    file, manifest = tmp_path / "kubeconfig", tmp_path / "tickets.yaml"
    manifest.write_text(yaml.safe_dump(DEFINITION))
    arguments = (*UP, "--nodes", "2", "--plugin", PLUGIN, "-f", str(manifest), "--kubeconfig", str(file))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("nodes 2/2 ready"):
            assert running.poll() is None

        async def story() -> None:
            async with ApiClient(load_connection(str(file))) as client:
                await admit(client)

        try:
            asyncio.run(story())
        finally:
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=ENOUGH)
        assert (running.returncode, errors) == (0, "")
