"""The manifests of deploy/ and its chart on the real API server: the same objects, and sufficient permissions."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.live.cluster import LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.support.control_plane import ROOT, ControlPlane

Data = dict[str, Any]
Named = dict[tuple[str, str, str], Data]
"""Objects by kind, namespace and name."""

NAME: Final = "moorage"
CHART: Final = ROOT / "deploy" / "helm" / "moorage"
RIGHTS: Final = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
WAYS: Final = ("kustomize", "helm")

#: A device that the scheduler allocates.
OBJECTS: Final = """
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


def told(*command: str | Path, given: str = "") -> str:
    """Run a program that must succeed; return its output."""
    result = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command[0]} {command[1]}: {result.stderr}{result.stdout}"
    return result.stdout


def kubectl(plane: ControlPlane, *arguments: str, given: str = "") -> str:
    """Run kubectl as the administrator."""
    return told(plane.programs / "kubectl", f"--kubeconfig={plane.kubeconfig()}", *arguments, given=given)


def helm(plane: ControlPlane, *arguments: str) -> str:
    """Run helm; build it if it is missing."""
    told(ROOT / "conformance" / "control-plane", "helm")
    return told(plane.programs / "helm", *arguments)


def rendered(plane: ControlPlane, way: str) -> str:
    """Return the manifests of deploy/ and of the chart."""
    if way == "helm":
        return helm(plane, "template", NAME, str(CHART), "--namespace=kube-system")
    return kubectl(plane, "kustomize", str(ROOT / "deploy"))


def named(manifests: str) -> Named:
    """Return the objects in manifests, without the labels of their tool."""
    objects = [obj for obj in yaml.safe_load_all(manifests) if obj]
    return {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects}


def installed(plane: ControlPlane, way: str) -> Named:
    """Apply manifests to the real server, which validates all fields; return the stored objects."""
    manifests = rendered(plane, way)
    for obj in named(manifests):
        kind, namespace, name = obj
        kubectl(plane, "delete", kind, name, f"--namespace={namespace or 'default'}", "--ignore-not-found")
    strict = ("--server-side", "--validate=strict")
    if way == "helm":
        kubectl(plane, "apply", *strict, "-f", "-", given=manifests)
    else:
        kubectl(plane, "apply", *strict, "-k", str(ROOT / "deploy"))
    output = kubectl(plane, "get", "-f", "-", "-o", "yaml", given=manifests)
    return named(yaml.safe_dump_all(yaml.safe_load(output)["items"]))


def essence(obj: Data) -> Data:
    """Return the effective content of an object, without its author and times."""
    spec: Data = yaml.safe_load(yaml.safe_dump(obj))
    for where in (spec, spec.get("spec", {}).get("template", {})):
        where.pop("metadata", None)
    for key in ("apiVersion", "kind", "status"):
        spec.pop(key, None)
    if text := spec.get("data", {}).get("config.yaml"):
        spec["data"]["config.yaml"] = yaml.safe_load(text)
    stripped: dict[str, Any] = without_instance(spec)
    return stripped


def without_instance(part: Any) -> Any:
    """Remove the label that identifies a Helm release."""
    if isinstance(part, dict):
        return {key: without_instance(each) for key, each in part.items() if key != "app.kubernetes.io/instance"}
    return [without_instance(each) for each in part] if isinstance(part, list) else part


def test_chart_is_valid(plane: ControlPlane) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm(plane, "lint", "--strict", str(CHART))


def test_manifests_and_chart_install_the_same_objects(plane: ControlPlane) -> None:
    by_kustomize, by_helm = ({key: essence(obj) for key, obj in installed(plane, way).items()} for way in WAYS)
    assert {kind for kind, _, _ in by_helm} == {*RIGHTS, "ServiceAccount", "ConfigMap", "Deployment", "NetworkPolicy"}
    assert by_helm == by_kustomize


VALUES: Final = {
    "plugins": ("--set=plugins={mine.spot:Spot}", "Deployment", "--plugin=mine.spot:Spot"),
    "flags": (
        "--set=extraArgs={--feature-gates=SchedulerAsyncPreemption=false}",
        "Deployment",
        "AsyncPreemption=false",
    ),
    "rights": (
        '--set-json=extraRules=[{"apiGroups":["example.org"],"resources":["quotas"],"verbs":["list"]}]',
        "ClusterRole",
        "quotas",
    ),
    "a profile": ("--set=profile.percentageOfNodesToScore=7", "ConfigMap", "percentageOfNodesToScore: 7"),
    "the default scheduler": ("--set=schedulerName=default-scheduler", "ConfigMap", "schedulerName: default-scheduler"),
    "a node selector": ("--set=nodeSelector.pool=control", "Deployment", "pool: control"),
}


@pytest.mark.parametrize(("flag", "kind", "want"), VALUES.values(), ids=VALUES)
def test_value_is_rendered(plane: ControlPlane, flag: str, kind: str, want: str) -> None:
    manifests = helm(plane, "template", "trial", str(CHART), "--namespace=default", flag)
    kubectl(plane, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=manifests)
    assert want in yaml.safe_dump([obj for (is_kind, _, _), obj in named(manifests).items() if is_kind == kind])


@pytest.mark.usefixtures("controllers")  # releases the device
@pytest.mark.parametrize("way", WAYS)
def test_required_permissions_are_granted(plane: ControlPlane, live: Callable[[Story], None], way: str) -> None:
    """The scheduler runs with the installed service account and configuration."""
    objects = installed(plane, way)
    plane.tokens[NAME] = kubectl(plane, "create", "token", NAME, "-n", "kube-system").strip()
    kubeconfig = str(plane.kubeconfig(NAME))
    config = yaml.safe_load(objects["ConfigMap", "kube-system", NAME]["data"]["config.yaml"])
    file = plane.directory / "deployed.yaml"
    file.write_text(yaml.safe_dump({**config, "clientConnection": {"kubeconfig": kubeconfig}}))
    flags = [f"--config={file}", "--leader-elect=true"]
    flags += [f"--{description}-kubeconfig={kubeconfig}" for description in ("authentication", "authorization")]

    async def story(cluster: LiveCluster) -> None:
        with scheduler(plane.kubeconfig(NAME), *flags) as process:
            await use_every_right(cluster)
            assert process.stop() == 0
            assert not [line for line in process.log.splitlines() if "forbidden" in line.lower()]

    live(story)


async def use_every_right(cluster: LiveCluster) -> None:
    """Create pods that get a device, are bound, and preempt."""
    await cluster.add_nodes("n1", cpu="2")
    for obj in yaml.safe_load(OBJECTS):
        await cluster.create(obj["path"], obj["content"])
    claims = [{"name": "gpu", "resourceClaimName": "one-gpu"}]
    await cluster.add_pods("rich", schedulerName=NAME, resourceClaims=claims)
    await cluster.wait_for("a pod with a device", lambda pods: bound(pods, ["rich"]))
    await cluster.add_pods("low", cpu="1500m", schedulerName=NAME)
    await cluster.wait_for("a plain pod", lambda pods: bound(pods, ["low"]))
    await cluster.add_pods("high", cpu="1500m", schedulerName=NAME, priorityClassName="system-node-critical")
    await cluster.wait_for("a pod that preempts", lambda pods: bound(pods, ["high"]))


CAN: Final = {
    "may bind volumes to claims": ("patch", "persistentvolumes", True),
    "may bind claims to volumes": ("patch", "persistentvolumeclaims", True),
    "may create claims for extended resources": ("create", "resourceclaims.resource.k8s.io", True),
    "may delete claims for extended resources": ("delete", "resourceclaims.resource.k8s.io", True),
    "may not read secrets": ("get", "secrets", False),
    "may not create pods": ("create", "pods", False),
    "may not change nodes": ("update", "nodes", False),
    "may not change roles": ("update", "clusterroles.rbac.authorization.k8s.io", False),
    "may not use other leases": ("update", "leases.coordination.k8s.io/kube-scheduler", False),
}


@pytest.mark.parametrize("way", WAYS)
def test_permissions(plane: ControlPlane, way: str) -> None:
    installed(plane, way)
    account = f"--as=system:serviceaccount:kube-system:{NAME}"
    command = [
        str(plane.programs / "kubectl"),
        f"--kubeconfig={plane.kubeconfig()}",
        "auth",
        "can-i",
        "-n",
        "kube-system",
    ]
    for sentence, (verb, description, want) in CAN.items():
        # kubectl exits with 1 if it is not allowed
        answer = subprocess.run([*command, account, verb, description], check=False, capture_output=True, text=True)
        assert answer.stdout.strip() == ("yes" if want else "no"), sentence
