"""One plugin in `moorage simulate`, testing.Cluster and `moorage up`; tests/live runs it on a real server."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli import main
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.testing import Cluster, in_virtual_time
from tests.support.ticketing import DEFINITION, PLUGIN, THINGS, Ticketing, admit, pod, ticket

UP = (sys.executable, "-c", "from moorage.cli.main import main; main()", "up")
ENOUGH = 90.0


@in_virtual_time
async def test_plugin_works_in_virtual_time() -> None:
    async with Cluster(nodes=2, plugins=[Ticketing], definitions=[DEFINITION]) as cluster:
        await admit(cluster.client)


@in_virtual_time
async def test_plugin_works_if_the_kind_is_defined_later() -> None:
    async with Cluster(nodes=2, plugins=[Ticketing]) as cluster:
        await cluster.sleep(10)
        await cluster.apply(DEFINITION)
        await admit(cluster.client)


def test_malformed_object_does_not_affect_others(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Ticketing], definitions=[DEFINITION]) as cluster:
            await cluster.apply({**ticket("odd", approved=True), "spec": {"approved": "perhaps"}}, pod("odd", "odd"))
            await cluster.wait_for(lambda: "there is no ticket odd" in cluster.why_pending("odd"))
            await admit(cluster.client)
            assert cluster.why_pending("odd")
            await cluster.apply(ticket("odd", approved=True))
            await cluster.wait_for(lambda: "odd" in [running_pod.name for running_pod in cluster.running()])

    story()
    messages = [line for line in logged if line["event"] == "malformed object skipped"]
    assert {(line["kind"], line["object"]) for line in messages} == {("Ticket", "default/odd")}
    assert messages[0]["reason"] == "spec.approved: expected true or false, found a string"


def test_plugin_works_in_real_time() -> None:
    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Ticketing], definitions=[DEFINITION]) as cluster:
            await admit(cluster.client)

    asyncio.run(story())


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


def simulated(tmp_path: Path, *flags: str, defined: bool, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Simulate the plugin's cluster; return the decisions by pod."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([NODE, *THINGS, *([DEFINITION] if defined else [])]))
    assert main.run(("simulate", "-f", str(file), "--plugin", PLUGIN, "-o", "json", *flags)) == 0
    return {decision["pod"]: decision for decision in json.loads(capsys.readouterr().out)["decisions"]}


@pytest.mark.parametrize("defined", [True, False], ids=["defined in the file", "not defined"])
def test_plugin_works_in_a_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, defined: bool) -> None:
    result = simulated(tmp_path, defined=defined, capsys=capsys)
    assert {pod: decision["result"] for pod, decision in result.items()} == {
        "default/holder": "scheduled",
        "default/passer-by": "scheduled",
        "default/hopeful": "unschedulable",
        "default/forger": "unschedulable",
    }
    assert "after waiting 2s at plugin Ticketing" in result["default/hopeful"]["message"]
    assert "there is no ticket copper" in result["default/forger"]["message"]


@pytest.mark.parametrize("flags", [(), ("--one-pass",)], ids=["until quiet", "in one pass"])
def test_simulation_reports_an_invalid_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([NODE, {**ticket("odd", approved=True), "spec": {"approved": "perhaps"}}]))
    assert main.run(("simulate", "-f", str(file), "--plugin", PLUGIN, *flags)) == 2
    expected = "Ticket odd: a plugin cannot read it: spec.approved: expected true or false, found a string"
    assert expected in capsys.readouterr().err


def test_verbose_plugin_logs_are_written_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([NODE, *THINGS]))
    message = {}
    for level in ("-v=0", "-v=4"):
        assert main.run(("simulate", "-q", "-f", str(file), "--plugin", PLUGIN, level)) == 0
        message[level] = capsys.readouterr().err
    detail = '"pod is let in" plugin="Ticketing" profile="default-scheduler" pod="default/holder"'
    assert detail in message["-v=4"]
    assert detail not in message["-v=0"]
    assert '"the inspector goes home"' in message["-v=0"]
    assert main.run(("simulate", "-f", str(file), "-v", "lots")) == 2
    assert "'lots' is not a log level; use a number from 0 to 10" in capsys.readouterr().err


def test_one_pass_runs_no_background_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = simulated(tmp_path, "--one-pass", defined=True, capsys=capsys)
    assert [pod for pod, decision in result.items() if decision["result"] == "scheduled"] == ["default/passer-by"]


def test_plugin_works_in_a_separate_process(tmp_path: Path) -> None:
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
