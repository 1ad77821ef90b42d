"""`moorage mcp`, called with the client of the official SDK."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import node
from tests.unit.insight.forecast.test_forecasting import RUNNING, job_pod

from moorage.cli.mcp import MAX_COMMANDS, ReadOnlyTools, make_server, require_token, shorten


@pytest.fixture(name="tools")
def make_tools(tmp_path: Path) -> ReadOnlyTools:
    path = tmp_path / "cluster.json"
    items = [node("n1", cpu="4"), node("n2", cpu="2"), RUNNING, job_pod("w", cpu="3")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return ReadOnlyTools(["-f", str(path)], [])


def call(tools: ReadOnlyTools, tool: str, **arguments: Any) -> Any:
    mcp = pytest.importorskip("mcp", reason="moorage[mcp] is not installed")

    async def run() -> Any:
        async with mcp.Client(make_server(tools)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "expected"),
    [
        ("explain", {"pod": "w"}, "result", "unschedulable"),
        ("when", {"pod": "w"}, "state", "pending"),
        ("plan_drain", {"nodes": ["n2"]}, "feasible", True),
        ("config_check", {"configuration": "kind: KubeSchedulerConfiguration\nprofile: []\n"}, "valid", False),
    ],
)
def test_tools_return_structured_results(
    tools: ReadOnlyTools, tool: str, arguments: dict[str, Any], field: str, expected: Any
) -> None:
    result = call(tools, tool, **arguments)
    assert not result.is_error, result
    assert result.structured_content[field] == expected


def test_capacity_and_what_if(tools: ReadOnlyTools) -> None:
    manifest = json.dumps(job_pod("x", cpu="1"))
    assert call(tools, "capacity", pod_manifest=manifest).structured_content["fits"] == 3
    decisions = call(tools, "what_if", add_nodes="1xn1").structured_content["decisions"]
    assert [(item["pod"], item["node"]) for item in decisions] == [("default/w", "n1-new-1")]
    assert call(tools, "simulate").structured_content["decisions"][0]["result"] == "unschedulable"


@pytest.mark.parametrize("pod", ["nope", "--help"])
def test_mistakes_are_errors_of_the_tool(tools: ReadOnlyTools, pod: str) -> None:
    result = call(tools, "explain", pod=pod)
    assert result.is_error
    assert pod in result.content[0].text


def test_lists_are_shortened_and_nodes_omitted() -> None:
    assert shorten({"nodes": {"n1": {}}, "fits": [{"nodes": 3}] * 22}) == {
        "fits": [{"nodes": 3}] * 20 + ["… and 2 more"]
    }


@pytest.mark.parametrize(("token", "status"), [(b"Bearer secret", 200), (b"Bearer other", 401), (b"", 401)])
def test_http_requires_a_token(token: bytes, status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"authorization", token)]}
    asyncio.run(require_token(app, [b"secret"])(scope, None, send))
    assert sent[0]["status"] == status


def test_commands_do_not_import_files_of_the_current_directory(
    tools: ReadOnlyTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(tools.explain("w"))["result"] == "unschedulable"


def find_children() -> set[str]:
    """Return the ids of running child processes."""
    ids: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        ids.update(path.read_text().split())
    return ids


def test_cancelled_call_ends_its_command(tools: ReadOnlyTools) -> None:
    before = find_children()

    async def run() -> None:
        call = asyncio.create_task(tools.explain("w"))
        while not find_children() - before:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not find_children() - before

    asyncio.run(run())


def test_number_of_running_commands_is_limited(tools: ReadOnlyTools) -> None:
    before = find_children()

    async def run() -> None:
        calls = [asyncio.create_task(tools.explain("w")) for _ in range(MAX_COMMANDS + 2)]
        while len(find_children() - before) < MAX_COMMANDS:
            await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert len(find_children() - before) == MAX_COMMANDS
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(run())
