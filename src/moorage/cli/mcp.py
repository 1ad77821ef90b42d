"""`moorage mcp`: a Model Context Protocol server with read-only tools.

Each tool runs a moorage command in a separate process. Standard output is reserved for the protocol, and a slow command
can be killed.
"""

import asyncio
import hmac
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    import uvicorn

SECONDS: Final = 300.0
SHUTDOWN_SECONDS: Final = 3
"""Time limit for open connections after Ctrl-C."""
MAX_CONNECTIONS: Final = 64
REQUEST_SECONDS: Final = 10
"""Time limit for the headers of the first request on a connection."""
MAX_ITEMS: Final = 20
"""Maximum length of a list in a result, because language models have a limited context."""
MAX_COMMANDS: Final = 4
"""Commands that run at the same time. Further calls wait."""
PROGRAM: Final = (
    "import sys; from moorage.common.forked_process import end_with_parent; end_with_parent(int(sys.argv[1])); "
    "from moorage.cli.main import run; sys.exit(run(sys.argv[2:]))"
)
FILE_EXTENSIONS: Final = (".yaml", ".yml", ".json")
WORKLOAD_KINDS: Final = ("pod", "job", "podgroup", "deployment", "replicaset", "statefulset")
OMITTED: Final = ("nodes",)
"""Fields with details of each node; results omit them."""
Transport = Annotated[
    int | None,
    typer.Option(
        "--http-port",
        metavar="PORT",
        parser=options.number(0, 65535),
        help="Serve HTTP on this port of 127.0.0.1 instead of standard input and output; needs --token-file.",
    ),
]


def mcp(
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    config: options.LiveConfig = None,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    http_port: Transport = None,
    token_file: options.TokenFile = None,
) -> None:
    """Serve read-only tools to clients of the Model Context Protocol.

    The tools are explain, what_if, capacity, plan, when, simulate and config_check. Each call reads the cluster
    that kubectl uses, a snapshot, or files. Needs moorage[mcp].
    """
    start_lightly()
    given = [("-f", path) for path in file or ()]
    given += [("--snapshot", snapshot), ("--config", str(config or "")), ("--kubeconfig", kubeconfig)]
    for option, path in given:
        if path and not Path(path).expanduser().exists():
            hint = "correct the path in the configuration of the MCP client"
            raise InputError(f"{option} {path}", "the file does not exist", hint=hint)
    cluster = [part for path in file or () for part in ("-f", path)]
    for option, value in (("--snapshot", snapshot), ("--kubeconfig", kubeconfig), ("--context", context)):
        cluster += [option, value] if value else []
    tools = ReadOnlyTools(cluster, ["--config", str(config)] if config is not None else [])
    try:
        server = make_server(tools)
    except ImportError as error:
        raise InputError("moorage mcp", "the MCP SDK is not installed", hint="pip install 'moorage[mcp]'") from error
    if http_port is None:
        server.run("stdio")
        return
    if token_file is None:
        raise InputError("--http-port", "needs --token-file", hint="write a secret into a file, and pass the file")
    from moorage.kube.http.guard import read_tokens

    make_http_server(require_token(server.streamable_http_app(), read_tokens(token_file)), http_port).run()


class ReadOnlyTools:
    """The tools. Clients receive their names, parameters and docstrings."""

    def __init__(self, cluster: Sequence[str], config: Sequence[str]) -> None:
        self._cluster, self._config = cluster, config
        self._commands = asyncio.Semaphore(MAX_COMMANDS)

    async def explain(self, pod: str, namespace: str = "default") -> dict[str, Any]:
        """Explain why a pod (or deployment/NAME, job/NAME) is pending, and which changes would make it fit."""
        return await self._run_command(
            "explain", _name(pod), "-n", namespace, "-o", "json", *self._cluster, *self._config
        )

    async def what_if(self, add_nodes: str = "", remove_node: str = "") -> dict[str, Any]:
        """Schedule the pending pods after adding nodes (3xNODE or 3xcpu=8,memory=32Gi) or removing a node (a name)."""
        changes = [
            *(["--add-nodes", add_nodes] if add_nodes else []),
            *(["--remove-node", remove_node] if remove_node else []),
        ]
        return await self._simulate(*changes)

    async def capacity(self, pod_manifest: str) -> dict[str, Any]:
        """Count how many more copies of a pod (a manifest in YAML or JSON) fit."""
        return await self._with_manifest(pod_manifest, "capacity")

    async def plan(
        self,
        goal: Literal["drain", "rebalance", "defragment", "consolidate", "fit"],
        nodes: Sequence[str] = (),
        selector: str = "",
        pods: Sequence[str] = (),
        pod_manifest: str = "",
        max_moves: int | None = None,
    ) -> dict[str, Any]:
        """Plan evictions: the steps, the new node of each pod, and the pods that cannot move. Nothing is evicted.

        drain: empty nodes (names, or a label selector such as pool=old). rebalance: correct outdated or uneven
        placements. consolidate: empty as many nodes as possible. defragment and fit: make room for pods (pending pods,
        job/NAME or podgroup/NAME, or a manifest in YAML or JSON); fit without pods considers all pending pods.
        """
        limits = [] if max_moves is None else ["--max-moves", str(max_moves)]
        if goal == "drain":
            limits += [*map(_name, nodes), *(["--selector", selector] if selector else [])]
        if goal not in ("defragment", "fit"):
            return await self._run_command("plan", goal, *limits, "-o", "json", *self._cluster, *self._config)
        with TemporaryDirectory() as directory:
            request = [_pod_name(pod) for pod in pods]
            if pod_manifest:
                path = Path(directory) / "pod.yaml"
                path.write_text(pod_manifest, encoding="utf-8")
                request.append(str(path))
            target_options = request if goal == "fit" else [part for item in request for part in ("--for", item)]
            command = ("plan", goal, *target_options, *limits, "-o", "json", *self._cluster, *self._config)
            return await self._run_command(*command, private=f"{directory}/")

    async def when(self, pod: str, namespace: str = "default") -> dict[str, Any]:
        """Forecast when a pending pod (or job/NAME, podgroup/NAME) starts, as seconds from now: p10, p50, p90."""
        return await self._run_command("when", _name(pod), "-n", namespace, "-o", "json", *self._cluster, *self._config)

    async def simulate(self) -> dict[str, Any]:
        """Try to schedule each pending pod once, in queue order, and return the decisions."""
        return await self._simulate()

    async def _simulate(self, *changes: str) -> dict[str, Any]:
        """Simulate files or a snapshot. Save a live cluster as a snapshot first."""
        with TemporaryDirectory() as directory:
            source = self._cluster
            if not {"-f", "--snapshot"} & set(source):
                path = str(Path(directory) / "cluster.json")
                code, _, problem = await self._run("snapshot", path, "-q", *source)
                if code:
                    raise InputError("moorage snapshot", problem.strip())
                source = ["--snapshot", path]
            return await self._run_command("simulate", "--one-pass", "-o", "json", *changes, *source, *self._config)

    async def config_check(self, configuration: str) -> dict[str, Any]:
        """Validate a KubeSchedulerConfiguration in YAML."""
        with TemporaryDirectory() as directory:
            path = Path(directory) / "config.yaml"
            path.write_text(configuration, encoding="utf-8")
            code, output, problem = await self._run("config", "check", str(path))
        return {"valid": code == 0, "output": (output or problem).replace(str(path), "config.yaml").strip()}

    async def _with_manifest(self, manifest: str, *command: str) -> dict[str, Any]:
        with TemporaryDirectory() as directory:
            path = Path(directory) / "pod.yaml"
            path.write_text(manifest, encoding="utf-8")
            return await self._run_command(*command, str(path), "-o", "json", *self._cluster, *self._config)

    async def _run_command(self, *arguments: str, private: str = "") -> dict[str, Any]:
        """Run a command. Raise InputError with its message if it fails. The result omits the ``private`` directory."""
        code, output, problem = await self._run(*arguments, "-q")
        if private:
            output, problem = output.replace(private, ""), problem.replace(private, "")
        if code:
            raise InputError(f"moorage {arguments[0]}", problem.strip().removeprefix("error: ") or f"exit code {code}")
        shortened: dict[str, Any] = shorten(json.loads(output))
        return shortened

    async def _run(self, *arguments: str) -> tuple[int, str, str]:
        async with self._commands:
            return await _run(*arguments)


def _name(text: str) -> str:
    """Return a name. Raise InputError if the command would parse it as an option."""
    if text.startswith("-"):
        raise InputError(text, "a name cannot begin with a dash")
    return text


def _pod_name(text: str) -> str:
    """Return the name of a pod or workload with its kind, which never is the name of a file."""
    if text.endswith(FILE_EXTENSIONS) or text.startswith((".", "/")):
        raise InputError(text, "file names are not supported", hint="pass the manifest as pod_manifest")
    kind, slash, _ = text.partition("/")
    return _name(text) if slash and (kind in WORKLOAD_KINDS or text.count("/") == 2) else f"pod/{_name(text)}"


async def _run(*arguments: str) -> tuple[int, str, str]:
    """Run a command in a process that ends with this one. Files of the current directory are not imported (-P)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", PROGRAM, str(os.getpid()), *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, problem = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        raise InputError(f"moorage {arguments[0]}", f"timed out after {SECONDS:.0f} s") from None
    finally:
        # The client may also have cancelled the call.
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(), problem.decode()


def shorten(value: Any) -> Any:
    """Shorten lists, and omit descriptions of all nodes.

    >>> shorten({"pods": list(range(25)), "nodes": {"n1": {}}})["pods"][-1]
    '… and 5 more'
    """
    if isinstance(value, dict):
        return {name: shorten(item) for name, item in value.items() if name not in OMITTED or isinstance(item, int)}
    if isinstance(value, list):
        omitted = len(value) - MAX_ITEMS
        return [*map(shorten, value[:MAX_ITEMS]), *([f"… and {omitted} more"] if omitted > 0 else [])]
    return value


def make_server(tools: ReadOnlyTools) -> Any:
    """Return an MCP server with the tools. Raise ImportError if the SDK is not installed."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations

    def reporting(tool: Callable[..., Awaitable[dict[str, Any]]]) -> Callable[..., Awaitable[dict[str, Any]]]:
        @wraps(tool)
        async def call(**arguments: Any) -> dict[str, Any]:
            try:
                return await tool(**arguments)
            except InputError as error:
                raise ToolError(str(error)) from error

        return call

    server = MCPServer(
        "moorage",
        instructions="Read-only tools that explain, simulate and plan the scheduling of a Kubernetes cluster.",
    )
    for tool in (
        *(tools.explain, tools.what_if, tools.capacity, tools.plan, tools.when, tools.simulate),
        tools.config_check,
    ):
        server.add_tool(reporting(tool), annotations=ToolAnnotations(read_only_hint=True))
    return server


Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def require_token(app: Asgi, tokens: Sequence[bytes]) -> Asgi:
    """Reject HTTP requests without one of the bearer tokens."""
    expected = [b"Bearer " + token for token in tokens]

    async def check(scope: dict[str, Any], receive: Any, send: Any) -> None:
        header = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] == "http" and not any(hmac.compare_digest(header, item) for item in expected):
            headers = [(b"www-authenticate", b"Bearer"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a bearer token is required\n"})
            return
        await app(scope, receive, send)

    return check


def make_http_server(app: Asgi, port: int) -> "uvicorn.Server":
    """Return a server on 127.0.0.1 with a limited number of connections."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    idle_connections: dict[H11Protocol, None] = {}  # connections without a request, the oldest first

    class LimitedConnection(H11Protocol):
        """At the limit, a new connection replaces the oldest one without a request."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > MAX_CONNECTIONS:
                oldest = next(iter(idle_connections), self)
                idle_connections.pop(oldest, None)
                oldest.transport.abort()
            idle_connections[self] = None
            self.loop.call_later(REQUEST_SECONDS, self._close_without_request)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None:
                idle_connections.pop(self, None)

        def connection_lost(self, exc: Exception | None) -> None:
            idle_connections.pop(self, None)
            super().connection_lost(exc)

        def _close_without_request(self) -> None:
            if self in idle_connections:
                self.transport.abort()

    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        http=LimitedConnection,
        ws="none",
        log_level="warning",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)
