"""`moorage mcp`, called with the client of the official SDK."""

import asyncio
import json
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import node
from tests.unit.insight.forecast.test_forecasting import RUNNING, job_pod

from moorage.cli.mcp import (
    MAX_COMMANDS,
    MAX_CONNECTIONS,
    REQUEST_SECONDS,
    ReadOnlyTools,
    make_http_server,
    make_server,
    require_token,
    shorten,
)


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
        ("plan", {"goal": "drain", "nodes": ["n2"]}, "feasible", True),
        ("plan", {"goal": "consolidate", "max_moves": 3}, "arguments", {"maxMoves": 3}),
        ("plan", {"goal": "rebalance"}, "goal", "rebalance"),
        ("plan", {"goal": "fit", "pods": ["w"]}, "arguments", {"for": ["pod/w"]}),
        ("plan", {"goal": "fit", "pods": ["default/w"]}, "arguments", {"for": ["pod/default/w"]}),
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


def test_plans_for_manifests(tools: ReadOnlyTools) -> None:
    result = call(tools, "plan", goal="defragment", pod_manifest=json.dumps(job_pod("x", cpu="1"))).structured_content
    assert result["arguments"] == {"for": ["pod.yaml"]}
    assert [item["pod"] for item in result["placed"]] == ["default/x"]


@pytest.mark.parametrize("pod", ["/etc/passwd", "secret.yaml", "./secret", "--for"])
def test_plans_read_no_files(tools: ReadOnlyTools, pod: str) -> None:
    result = call(tools, "plan", goal="fit", pods=[pod])
    assert result.is_error
    assert pod in result.content[0].text


PROGRAM = "import sys; from moorage.cli.main import run; sys.exit(run(sys.argv[1:]))"


def test_a_child_process_serves_standard_output(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="moorage[mcp] is not installed")
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(node("n1")))
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", PROGRAM, "mcp", "-f", str(path)], env=dict(os.environ)
    )

    async def run() -> Any:
        async with mcp.Client(parameters) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            return names, await client.call_tool("simulate", {})

    names, result = asyncio.run(run())
    assert names == {"explain", "what_if", "capacity", "plan", "when", "simulate", "config_check"}
    assert result.structured_content["decisions"] == []


def test_http_serves_the_client_of_the_sdk(tools: ReadOnlyTools) -> None:
    mcp = pytest.importorskip("mcp", reason="moorage[mcp] is not installed")
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    async def run(token: str) -> Any:
        app = require_token(make_server(tools).streamable_http_app(), [b"secret"])
        server = make_http_server(app, 0)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        http_client = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
        try:
            async with mcp.Client(
                streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http_client)
            ) as client:
                return await client.call_tool("explain", {"pod": "w"})
        finally:
            await http_client.aclose()  # the server waits for open connections
            server.should_exit = True
            await serving

    assert asyncio.run(run("secret")).structured_content["result"] == "unschedulable"
    with pytest.raises(ExceptionGroup):
        asyncio.run(run("other"))


def test_silent_connections_replace_each_other() -> None:
    pytest.importorskip("mcp", reason="moorage[mcp] is not installed")

    async def refuse(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError

    async def run() -> bytes:
        server = make_http_server(require_token(refuse, [b"secret"]), 0)
        server.config.lifespan = "off"
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
            silent[0].setblocking(False)
            assert await asyncio.wait_for(loop.sock_recv(silent[0], 1), REQUEST_SECONDS / 2) == b""
            speaking = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            speaking.setblocking(False)
            await loop.sock_sendall(speaking, b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
            answer = await loop.sock_recv(speaking, 1000)
            assert len(server.server_state.connections) <= MAX_CONNECTIONS < len(silent)
        server.should_exit = True
        await serving
        return answer

    assert asyncio.run(run()).startswith(b"HTTP/1.1 401")


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
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not find_children() - before

    asyncio.run(run())


def test_number_of_running_commands_is_limited(tools: ReadOnlyTools) -> None:
    before = find_children()

    async def run() -> None:
        calls = [asyncio.create_task(tools.explain("w")) for _ in range(MAX_COMMANDS + 2)]
        while len(find_children() - before) < MAX_COMMANDS:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(find_children() - before) == MAX_COMMANDS
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(run())
