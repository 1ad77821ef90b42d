"""The daemon under exactly the service account of deploy/: it is refused nothing it needs."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.support.control_plane import ROOT, ControlPlane

ACCOUNT = "moorage"

#: A device that the scheduler allocates.
OBJECTS = """
- path: /apis/resource.k8s.io/v1/deviceclasses
  content:
    metadata: {name: gpu}
    spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
- path: /apis/resource.k8s.io/v1/resourceslices
  content:
    metadata: {name: n1-gpus}
    spec:
      driver: gpu.example.com
      nodeName: n1
      pool: {name: n1, generation: 1, resourceSliceCount: 1}
      devices: [{name: gpu-0}]
- path: /apis/resource.k8s.io/v1/namespaces/default/resourceclaims
  content:
    metadata: {name: one-gpu}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
"""


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    """Run kubectl as the administrator."""
    command = [plane.programs / "kubectl", f"--kubeconfig={plane.kubeconfig()}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def as_service_account(plane: ControlPlane) -> str:
    """Create the account with its rights, and return a kubeconfig for it."""
    for manifest in ("service-account.yaml", "rbac.yaml"):
        kubectl(plane, "apply", "-f", str(ROOT / "deploy" / manifest))
    plane.tokens[ACCOUNT] = kubectl(plane, "create", "token", ACCOUNT, "-n", "kube-system").strip()
    return str(plane.kubeconfig(ACCOUNT))


def deployed_configuration(plane: ControlPlane, kubeconfig: str) -> str:
    """Write the configuration of deploy/ with a kubeconfig in it, and return its path."""
    config: dict[str, Any] = yaml.safe_load(
        yaml.safe_load((ROOT / "deploy" / "config-map.yaml").read_text())["data"]["config.yaml"]
    )
    path = plane.folder / "deployed.yaml"
    path.write_text(yaml.safe_dump({**config, "clientConnection": {"kubeconfig": kubeconfig}}))
    return str(path)


def test_nothing_that_is_needed_is_refused(plane: ControlPlane, live: Callable[[Story], None]) -> None:
    kubeconfig = as_service_account(plane)
    flags = [f"--config={deployed_configuration(plane, kubeconfig)}", "--leader-elect=true"]
    flags += [f"--{what}-kubeconfig={kubeconfig}" for what in ("authentication", "authorization")]

    async def story(cluster: LiveCluster) -> None:
        with scheduler(plane.kubeconfig(ACCOUNT), *flags) as process:
            await cluster.add_nodes("n1", cpu="2")
            for thing in yaml.safe_load(OBJECTS):
                await cluster.create(thing["path"], thing["content"])
            await cluster.add_pods(
                "rich",
                schedulerName=ACCOUNT,
                resourceClaims=[{"name": "gpu", "resourceClaimName": "one-gpu"}],
            )
            await cluster.wait_for("a pod with a device", lambda pods: bound(pods, ["rich"]))
            await cluster.add_pods("low", cpu="1500m", schedulerName=ACCOUNT)
            await cluster.wait_for("a plain pod", lambda pods: bound(pods, ["low"]))
            await cluster.add_pods("high", cpu="1500m", schedulerName=ACCOUNT, priorityClassName="system-node-critical")
            await cluster.wait_for("a pod that preempts", lambda pods: bound(pods, ["high"]))
            assert process.stop() == 0
            refused = [line for line in process.log.splitlines() if "forbidden" in line.lower()]
            assert not refused

    live(story)


RIGHTS = {
    "volumes are bound to claims": ("patch", "persistentvolumes", True),
    "claims are bound to volumes": ("patch", "persistentvolumeclaims", True),
    "claims for extended resources are made": ("create", "resourceclaims.resource.k8s.io", True),
    "and removed": ("delete", "resourceclaims.resource.k8s.io", True),
    "secrets are none of its business": ("get", "secrets", False),
    "it makes no pods": ("create", "pods", False),
    "it changes no nodes": ("update", "nodes", False),
    "it changes no roles": ("update", "clusterroles.rbac.authorization.k8s.io", False),
    "other leases are not its own": ("update", "leases.coordination.k8s.io/kube-scheduler", False),
}


@pytest.mark.parametrize(("verb", "what", "want"), RIGHTS.values(), ids=RIGHTS)
def test_rights(plane: ControlPlane, verb: str, what: str, want: bool) -> None:
    as_service_account(plane)
    account = f"system:serviceaccount:kube-system:{ACCOUNT}"
    command = [plane.programs / "kubectl", f"--kubeconfig={plane.kubeconfig()}", "auth", "can-i", verb, what]
    # kubectl exits with 1 for a no.
    told = subprocess.run(
        [*command, f"--as={account}", "-n", "kube-system"], check=False, capture_output=True, text=True
    )
    assert told.stdout.strip() == ("yes" if want else "no")
