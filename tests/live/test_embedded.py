"""Real clients of the embedded API server: kubectl, kube-scheduler and kube-controller-manager."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from moorage.cluster.apiserver.server import ApiServer
from tests.support.api import Data, definition, deployment, node
from tests.support.control_plane import binaries, free_ports, run

SHOP: Final = deployment()
NODE: Final = node() | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
QUOTA: Final = {"apiVersion": "example.org/v1", "kind": "Quota", "metadata": {"name": "q"}, "spec": {"most": 3}}
COMMANDS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("version", None, "Server Version: v1.37.1"),
    ("api-resources", None, "poddisruptionbudgets"),
    ("get namespaces", None, "kube-system"),
    ("apply -f -", NODE, "node/n1 created"),
    ("apply -f -", SHOP, "deployment.apps/shop created"),
    ("apply -f -", SHOP, "deployment.apps/shop unchanged"),
    ("apply -f -", deployment(image="shop:2"), "deployment.apps/shop configured"),
    ("get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}", None, "shop:2"),
    ("apply --server-side --force-conflicts -f -", SHOP, "serverside-applied"),
    ("create deployment made --image=web --replicas=2", None, "deployment.apps/made created"),
    ("get deployments", None, "0/2"),
    ("scale deployment made --replicas=5", None, "scaled"),
    ("run web --image=web --labels=app=web", None, "pod/web created"),
    ("get pods -o wide", None, "NOMINATED NODE"),
    ("get pods -l app=web --field-selector status.phase=Pending -o name", None, "pod/web"),
    ("describe pod web", None, "QoS Class:"),
    ("describe node n1", None, "Non-terminated Pods"),
    ("label pod web tier=front", None, "labeled"),
    ("annotate pod web a=b", None, "annotated"),
    ("taint node n1 spot=true:NoSchedule", None, "tainted"),
    ("taint node n1 spot-", None, "untainted"),
    ("cordon n1", None, "cordoned"),
    ("get nodes", None, "SchedulingDisabled"),
    ("uncordon n1", None, "uncordoned"),
    ("drain n1", None, "drained"),
    ("apply -f -", definition(), "customresourcedefinition.apiextensions.k8s.io/quotas.example.org created"),
    ("wait --for=condition=Established crd/quotas.example.org", None, "condition met"),
    ("apply -f -", QUOTA, "quota.example.org/q created"),
    ("get quotas", None, "MOST"),
    ("explain pod.spec.tolerations", None, "FIELDS"),
    ("auth can-i create pods", None, "yes"),
    ("create configmap settings --from-literal=a=b", None, "created"),
    ('patch pod web --type=json -p [{"op":"add","path":"/metadata/labels/x","value":"y"}]', None, "patched"),
    ("delete pod web", None, "deleted"),
    ("delete deployment shop made", None, "deleted"),
    ("wait --for=delete pod/web --timeout=5s", None, ""),
)


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Path]:
    async with ApiServer() as server:
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump(server.kubeconfig()))
        yield file


async def kubectl(config: Path, command: str, body: Any = None) -> str:
    process = await asyncio.create_subprocess_exec(
        binaries() / "kubectl",
        f"--kubeconfig={config}",
        *command.split(" "),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate(msgspec.json.encode(body) if body is not None else None)
    assert process.returncode == 0, f"kubectl {command}: {output.decode()}"
    return output.decode()


def test_kubectl_commands_succeed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with embedded(tmp_path) as config:
            for command, body, want in COMMANDS:
                assert want in await kubectl(config, command, body), command

    asyncio.run(scenario())


def test_kubectl_watches_pods(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with embedded(tmp_path) as config:
            watching = await asyncio.create_subprocess_exec(
                *(binaries() / "kubectl", f"--kubeconfig={config}", "get", "pods", "-w", "--output-watch-events"),
                stdout=subprocess.PIPE,
            )
            assert watching.stdout is not None
            await kubectl(config, "run web --image=web")
            output = [await asyncio.wait_for(watching.stdout.readline(), 20) for _ in range(2)]
            assert output[1].startswith(b"ADDED")
            await kubectl(config, "delete pod web")
            assert (await asyncio.wait_for(watching.stdout.readline(), 20)).startswith(b"DELETED")
            watching.kill()
            await watching.wait()

    asyncio.run(scenario())


def test_kubectl_names_the_remedy_for_an_unknown_kind(tmp_path: Path) -> None:
    async def scenario() -> None:
        unknown = {"apiVersion": "example.org/v9", "kind": "Widget", "metadata": {"name": "w"}}
        async with embedded(tmp_path) as config:
            with pytest.raises(
                AssertionError, match=r'no matches for kind "Widget"[^$]*ensure CRDs are installed first'
            ):
                await kubectl(config, "apply -f -", unknown)

    asyncio.run(scenario())


@asynccontextmanager
async def component(directory: Path, config: Path, name: str, *flags: str) -> AsyncIterator[None]:
    """Run a program of the real control plane on the embedded server."""
    (port,) = free_ports(1)
    kubeconfigs = [f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")]
    with (directory / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binaries() / name,
            *(*kubeconfigs, f"--secure-port={port}", f"--cert-dir={directory / name}", *flags),
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def eventually(config: Path, command: str, want: str) -> None:
    output = ""
    for _ in range(60):
        output = await kubectl(config, command)
        if output == want:
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"kubectl {command}: {output!r}")


def test_real_control_plane_runs_on_the_embedded_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        run("openssl", "genrsa", "-out", str(tmp_path / "sa.key"), "2048")
        key = f"--service-account-private-key-file={tmp_path / 'sa.key'}"
        async with (
            embedded(tmp_path) as config,
            component(tmp_path, config, "kube-scheduler"),
            component(tmp_path, config, "kube-controller-manager", key),
        ):
            await kubectl(config, "apply -f -", NODE)
            await kubectl(config, "apply -f -", scaled(SHOP, 3))
            await eventually(config, "get pods -o jsonpath={.items[*].spec.nodeName}", "n1 n1 n1")
            reasons = "get events --field-selector reason=Scheduled -o jsonpath={.items[*].reason}"
            await eventually(config, reasons, "Scheduled Scheduled Scheduled")
            await kubectl(config, "delete deployment shop --cascade=foreground --wait=false")
            await kubectl(config, "delete pods --all --grace-period=0 --force")
            await eventually(config, "get deployments,replicasets,pods -o name", "")

    asyncio.run(scenario())


def scaled(obj: Data, replicas: int) -> Data:
    return {**obj, "spec": {**obj["spec"], "replicas": replicas}}
