"""The real control plane on loopback: etcd and kube-apiserver, for tests and benchmarks; it is always stopped."""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from moorage.common.errors import ApiError, InputError
from moorage.kube.client.kubeconfig import Connection, load_connection
from moorage.kube.client.rest import ApiClient

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 60.0
ADMIN: Final = "admin"


def binaries() -> Path:
    """Return the directory of the programs; build missing ones."""
    script = ROOT / "conformance" / "control-plane"
    programs = ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"]
    subprocess.run([script, *programs], check=True, capture_output=True)
    printed = subprocess.run([script, "--print"], check=True, capture_output=True, text=True)
    return Path(printed.stdout.strip())


def program(name: str) -> Path:
    """Return a program; build it if it is missing."""
    script = ROOT / "conformance" / "control-plane"
    subprocess.run([script, name], check=True, stdout=subprocess.DEVNULL)
    printed = subprocess.run([script, "--print"], check=True, capture_output=True, text=True)
    return Path(printed.stdout.strip()) / name


class ControlPlane:
    """An API server with its etcd in a separate directory; users are tokens, and RBAC is on.

    ``flags`` are additional flags of the API server, such as ``--feature-gates``.
    """

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self.flags = flags
        self.data = directory / "etcd"
        self.programs = binaries()
        self.etcd_port, self.peer_port, self.api_port = free_ports(3)
        self.server = f"https://127.0.0.1:{self.api_port}"
        self.tokens = {ADMIN: secrets.token_hex(16)}
        self.etcd: subprocess.Popen[bytes] | None = None
        self.api: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start both and wait until the server is ready."""
        self.prepare()
        self.start_etcd()
        self.start_api_server()

    def prepare(self) -> None:
        """Write the file of tokens and users."""
        run("openssl", "genrsa", "-out", str(self.directory / "sa.key"), "2048")
        (self.directory / "tokens.csv").write_text(f'{self.tokens[ADMIN]},{ADMIN},1,"system:masters"\n')

    def start_etcd(self) -> None:
        """Start or restart etcd on the data in its directory."""
        self.etcd = self.spawn(
            "etcd",
            f"--data-dir={self.data}",
            f"--listen-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{self.peer_port}",
            "--unsafe-no-fsync",
        )

    def start_api_server(self) -> None:
        """Start or restart the API server, and wait until it is ready."""
        self.api = self.spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.api_port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory / 'certs'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.directory / 'sa.key'}",
            f"--service-account-signing-key-file={self.directory / 'sa.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Pods of tests have no service account, and no controller removes the initial taint of fake nodes.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1000",
            *self.flags,
        )
        self._await_ready()

    def kill_api_server(self) -> None:
        """Kill the API server."""
        assert self.api is not None
        self.api.send_signal(signal.SIGKILL)
        self.api.wait()

    def stop(self) -> None:
        """Stop all programs."""
        for process in (self.api, self.etcd):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Write the kubeconfig of a user and return its path."""
        path = self.directory / f"{user}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority": "certs/apiserver.crt"}
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def connection(self, user: str = ADMIN) -> Connection:
        """Return the connection of a user to the server."""
        return load_connection(str(self.kubeconfig(user)))

    def compact(self) -> None:
        """Compact etcd, so that watches from old versions receive 410."""
        status = self._etcd_call("/v3/maintenance/status", b"{}")
        revision = yaml.safe_load(status)["header"]["revision"]
        self._etcd_call("/v3/kv/compaction", f'{{"revision": {revision}, "physical": true}}'.encode())

    def log(self, program: str) -> str:
        """Return the end of a program's log."""
        return (self.directory / f"{program}.log").read_text()[-4000:]

    def _etcd_call(self, path: str, body: bytes) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}{path}", body)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            answered: bytes = answer.read()
            return answered

    def spawn(self, program: str, *flags: str) -> subprocess.Popen[bytes]:
        """Start one of the programs; its output is written to its log."""
        with (self.directory / f"{program}.log").open("ab") as output:
            return subprocess.Popen(
                [self.programs / program, *flags], stdout=output, stderr=subprocess.STDOUT, cwd=self.directory
            )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not asyncio.run(self._is_ready()):
            assert self.api is not None
            if self.api.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the API server did not start:\n{self.log('kube-apiserver')}")
            time.sleep(0.2)

    async def _is_ready(self) -> bool:
        try:
            async with ApiClient(self.connection()) as client:
                return await client.request("GET", "/readyz") == b"ok"
        except (ApiError, InputError):
            return False


@contextmanager
def control_plane(*flags: str) -> Iterator[ControlPlane]:
    """Run a control plane for the duration of the block."""
    directory = Path(tempfile.mkdtemp(prefix="moorage-live-"))
    plane = ControlPlane(directory, *flags)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        if not os.environ.get("MOORAGE_KEEP_LOGS"):
            shutil.rmtree(directory, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Find free ports."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def run(*command: str) -> None:
    """Run a program that is expected to succeed."""
    subprocess.run(command, check=True, capture_output=True)
