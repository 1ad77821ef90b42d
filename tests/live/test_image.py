"""The image on a real API server: its root file system, built by `make image-root`, as an unprivileged user."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from release.image_root import ImageRoot
from release.interpreters import CACHE

from tests.live.cluster import PATIENCE, LiveCluster, bound
from tests.live.conftest import Story
from tests.live.test_chart import run
from tests.support.control_plane import ControlPlane, free_ports, program

IMAGE: Final = CACHE / "image"
pytestmark = pytest.mark.skipif(
    not (IMAGE / "image.json").exists() or os.geteuid() != 0, reason="needs root and `make image-root`"
)

#: The permissions of the user scheduler of Zero to JupyterHub: kube-scheduler's of 1.36.
WATCHED: Final = {
    "": ["nodes", "replicationcontrollers", "services", "persistentvolumeclaims", "persistentvolumes", "namespaces"],
    "apps": ["replicasets", "statefulsets"],
    "policy": ["poddisruptionbudgets"],
    "storage.k8s.io": ["csinodes", "csidrivers", "csistoragecapacities", "storageclasses", "volumeattachments"],
    "resource.k8s.io": ["deviceclasses", "resourceclaims", "resourceslices"],
}
LOCK: Final = "user-scheduler-lock"
ACCOUNT: Final = "default:user-scheduler"


def rule(groups: str, resources: str, verbs: str, **more: Any) -> dict[str, Any]:
    """Return a rule; several values are separated by spaces."""
    return {"apiGroups": groups.split(" "), "resources": resources.split(), "verbs": verbs.split(), **more}


USER_SCHEDULER: Final = [
    *(rule(group, " ".join(resources), "get list watch") for group, resources in WATCHED.items()),
    rule(" events.k8s.io", "events", "create patch update"),
    rule("coordination.k8s.io", "leases", "create"),
    rule("coordination.k8s.io", "leases", "get list update watch", resourceNames=[LOCK]),
    rule("resource.k8s.io", "resourceclaims resourceclaims/status resourceclaims/binding", "patch update"),
    rule("", "pods", "delete get list watch"),
    rule("", "bindings pods/binding", "create"),
    rule("", "pods/status", "patch update"),
    rule("", "persistentvolumeclaims persistentvolumes", "patch update"),
    rule("authentication.k8s.io", "tokenreviews", "create"),
    rule("authorization.k8s.io", "subjectaccessreviews", "create"),
]
CONFIG: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"resourceLock": "leases", "resourceName": LOCK, "resourceNamespace": "default"},
    "profiles": [
        {
            "schedulerName": "jhub-user-scheduler",
            "plugins": {
                "score": {
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 121}],
                }
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ],
}


@contextlib.contextmanager
def container(directory: Path, *command: str, user: str = "", mounts: dict[Path, str] | None = None) -> Iterator[Path]:
    """Run a command inside the image until the block ends; return its log."""
    log = directory / "container.log"
    line = ImageRoot(IMAGE).command(*command, user=user, mounts=mounts)
    with log.open("wb") as output:
        process = subprocess.Popen(line, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


def test_user_scheduler_of_jupyterhub(plane: ControlPlane, live: Callable[[Story], None], tmp_path: Path) -> None:
    """The chart's command, configuration, user and permissions; only the image differs."""
    plane.tokens["user-scheduler"] = grant(plane, "user-scheduler", USER_SCHEDULER)
    if not os.environ.get("MOORAGE_KUBERNETES"):
        # A server of 1.37 has kinds that the chart's role does not name: the recipe adds the role of the cluster.
        kubectl = (program("kubectl"), f"--kubeconfig={plane.kubeconfig()}", "create", "clusterrolebinding")
        run(*kubectl, "user-scheduler-1.37", "--clusterrole=system:kube-scheduler", f"--serviceaccount={ACCOUNT}")
    access = tmp_path / "access"
    access.mkdir()
    config = CONFIG | {"clientConnection": {"kubeconfig": "/mnt/kubeconfig"}}
    (access / "config.yaml").write_text(yaml.safe_dump(config))
    write_kubeconfig(plane, "user-scheduler", access)
    (port,) = free_ports(1)
    command = ["/usr/local/bin/kube-scheduler", "--config=/mnt/config.yaml", "--authentication-skip-lookup=true"]
    command += ["--v=4", f"--secure-port={port}", "--authorization-kubeconfig=/mnt/kubeconfig"]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("fuller", "emptier")
        with container(tmp_path, *command, user="65534:65534", mounts={access: "/mnt"}) as log:
            selector = {"kubernetes.io/hostname": "fuller"}
            await cluster.add_pods("resident", cpu="2", schedulerName="jhub-user-scheduler", nodeSelector=selector)
            await cluster.wait_for("the first pod has a node", lambda pods: bound(pods, ["resident"]), 90)
            await cluster.add_pods("jupyter-ada", cpu="500m", schedulerName="jhub-user-scheduler")
            await cluster.wait_for("the notebook has a node", lambda pods: bound(pods, ["jupyter-ada"]), 90)
            assert (await cluster.pods())["jupyter-ada"].node_name == "fuller", "MostAllocated packs users"
            assert is_healthy(port, "/healthz"), log.read_text()

    live(story)


def is_healthy(port: int, path: str) -> bool:
    """Return whether a probe succeeds, as the kubelet sends it."""
    deadline = time.monotonic() + 30
    url = f"https://127.0.0.1:{port}{path}"
    while time.monotonic() < deadline:
        answer = subprocess.run(["curl", "-sk", "--noproxy", "*", url], capture_output=True, text=True, check=False)
        if answer.stdout == "ok":
            return True
        time.sleep(0.5)
    return False


def grant(plane: ControlPlane, name: str, rules: list[dict[str, Any]]) -> str:
    """Create a service account with exactly these rules; return a token."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    group = "rbac.authorization.k8s.io"
    manifests = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]
    file = plane.directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    kubectl = (program("kubectl"), f"--kubeconfig={plane.kubeconfig()}")
    run(*kubectl, "apply", "-f", file)
    return run(*kubectl, "create", "token", name).strip()


def write_kubeconfig(plane: ControlPlane, user: str, directory: Path) -> None:
    """Write a kubeconfig and its certificate where the unprivileged user of the image can read it."""
    content = yaml.safe_load(plane.kubeconfig(user).read_text())
    (directory / "ca.crt").write_bytes((plane.directory / "certs/apiserver.crt").read_bytes())
    content["clusters"][0]["cluster"]["certificate-authority"] = "/mnt/ca.crt"
    (directory / "kubeconfig").write_text(yaml.safe_dump(content))
    directory.chmod(0o755)


def test_image_starts_with_its_default_command(plane: ControlPlane, tmp_path: Path) -> None:
    """Without arguments the image runs the scheduler, which explains that it found no cluster."""
    line = ImageRoot(IMAGE).command()
    result = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert result.returncode == 1
    assert "kubeconfig" in result.stderr
    assert "Traceback" not in result.stderr
