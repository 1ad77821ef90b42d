"""The packaged chart from installation to removal, on a real API server and on `moorage up`.

The scheduler runs with the configuration that the release installed, as the service account of the release, and writes
the lease of the release. An administrator only installs the chart and creates nodes and pods.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from release.chart import CHART, GOLDENS, RENDERED, find_helm, render

from tests.live.cluster import PATIENCE, LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import LEASE, scheduler
from tests.support.control_plane import ControlPlane, program

RELEASE: Final = "berth"
NAMESPACE: Final = "scheduling"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


class Installed:
    """A release of the chart on one cluster, driven with helm and kubectl as a user does."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.kubeconfig = kubeconfig
        self.directory = directory

    def helm(self, *arguments: str) -> str:
        """Run helm on the cluster."""
        return run(find_helm(), *arguments, f"--kubeconfig={self.kubeconfig}", f"--namespace={NAMESPACE}")

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl on the cluster."""
        return run(program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments)

    def config(self) -> dict[str, Any]:
        """Return the scheduler configuration that the release contains now."""
        output = self.kubectl("get", "configmap", RELEASE, "-n", NAMESPACE, "-o", "json")
        config: dict[str, Any] = yaml.safe_load(msgspec.json.decode(output)["data"]["config.yaml"])
        return config

    def scheduler_name(self) -> str:
        """Return the name that pods select the scheduler by."""
        name: str = self.config()["profiles"][0]["schedulerName"]
        return name

    def lease_holder(self) -> str:
        """Return the holder of the lease of the release."""
        output = self.kubectl("get", "lease", RELEASE, "-n", NAMESPACE, "-o", "json")
        holder: str = msgspec.json.decode(output)["spec"]["holderIdentity"]
        return holder

    def write_access(self) -> tuple[Path, Path]:
        """Write the kubeconfig of the service account and the configuration; return both."""
        token = self.kubectl("create", "token", RELEASE, "-n", NAMESPACE).strip()
        content = yaml.safe_load(self.kubeconfig.read_text())
        content["users"] = [{"name": RELEASE, "user": {"token": token}}]
        for context in content["contexts"]:
            context["context"]["user"] = RELEASE
        for cluster in content["clusters"]:
            authority = cluster["cluster"].get("certificate-authority")
            if authority:
                cluster["cluster"]["certificate-authority"] = str(self.kubeconfig.parent / authority)
        kubeconfig = self.directory / "account.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(content))
        config = self.config() | {"clientConnection": {"kubeconfig": str(kubeconfig)}}
        file = self.directory / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        return kubeconfig, file

    def flags(self) -> tuple[Path, list[str]]:
        """Return the kubeconfig and the flags of a scheduler that runs as the release does."""
        kubeconfig, config = self.write_access()
        names = ("authentication", "authorization")
        flags = [f"--{name}-kubeconfig={kubeconfig}" for name in names]
        return kubeconfig, [f"--config={config}", "--leader-elect=true", *LEASE, *flags]


def run(*command: str | Path) -> str:
    """Run a program that is expected to succeed; return its output."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command[0]} {command[1]}: {result.stderr}{result.stdout}"
    return result.stdout


@pytest.mark.parametrize("name", RENDERED)
def test_rendered_manifests_match_their_golden_file(name: str) -> None:
    assert render(find_helm(), name) == (GOLDENS / f"{name}.yaml").read_text(encoding="utf-8"), "run `make chart`"


WRONG: Final = {
    "an unknown value": ("--set=replica=3", "additional properties 'replica' not allowed"),
    "a wrong type": ("--set=replicas=two", "got string, want integer"),
    "a plugin without a class": ("--set=plugins={mine}", "does not match pattern"),
    "an unknown pull policy": ("--set=image.pullPolicy=Sometimes", "value must be one of"),
    "an unsupported Kubernetes": ("--kube-version=1.33.0", "incompatible with Kubernetes v1.33.0"),
}


@pytest.mark.parametrize(("flag", "message"), WRONG.values(), ids=WRONG)
def test_invalid_values_are_rejected(flag: str, message: str) -> None:
    command = [find_helm(), "template", RELEASE, CHART, "--kube-version=1.36.0", flag]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert message in result.stderr


def test_install_upgrade_rollback_on_a_real_server(
    plane: ControlPlane, live: Callable[[Story], None], tmp_path: Path
) -> None:
    release = Installed(plane.kubeconfig(), tmp_path)
    notes = release.helm("install", RELEASE, str(CHART), "--create-namespace")
    assert "schedulerName moorage" in notes
    assert f"get lease {RELEASE}" in notes

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        await place(cluster, release, "first")
        release.helm("upgrade", RELEASE, str(CHART), "--set=schedulerName=berth", "--set=extraArgs={--kube-api-qps=50}")
        assert release.scheduler_name() == "berth"
        await place(cluster, release, "second")
        release.helm("rollback", RELEASE, "1")
        assert release.scheduler_name() == "moorage"
        await place(cluster, release, "third")

    try:
        live(story)
    finally:
        release.helm("uninstall", RELEASE)
    kinds = "serviceaccounts,configmaps,deployments,networkpolicies,clusterroles,clusterrolebindings,roles,rolebindings"
    remaining = release.kubectl("get", kinds, "-A", "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name")
    assert not remaining, "uninstalling removes everything"


async def place(cluster: LiveCluster, release: Installed, pod: str) -> None:
    """Run the scheduler as the release does until it has placed a pod; it may do everything that it tries to do."""
    kubeconfig, flags = release.flags()
    with scheduler(kubeconfig, *flags) as process:
        await cluster.add_pods(pod, schedulerName=release.scheduler_name())
        await cluster.wait_for(f"{pod} has a node", lambda pods: bound(pods, [pod]))
        event = await cluster.event("Scheduled", pod)
        assert event.reporting_controller == release.scheduler_name()
        assert release.lease_holder()
        assert process.stop() == 0
        assert not [line for line in process.log.splitlines() if "forbidden" in line.lower()]
    attempt = ("auth", "can-i", "create", "pods", f"--as={ACCOUNT}")
    answer = subprocess.run(
        [program("kubectl"), f"--kubeconfig={release.kubeconfig}", *attempt],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "no", "the account is not an administrator"


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Path]:
    """`moorage up` as a process; return the kubeconfig that it writes."""
    kubeconfig = tmp_path / "up.kubeconfig"
    command = [sys.executable, "-c", "from moorage.cli.main import main; main()", "up", "--nodes=3"]
    with (tmp_path / "up.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--kubeconfig={kubeconfig}"], stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + PATIENCE
        while not kubeconfig.exists() or "ready" not in (tmp_path / "up.log").read_text():
            assert process.poll() is None, (tmp_path / "up.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield kubeconfig
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def test_install_upgrade_rollback_on_moorage_up(embedded: Path, tmp_path: Path) -> None:
    release = Installed(embedded, tmp_path)
    release.helm("install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout=90s")
    assert re.search(r"berth\s+2/2", release.kubectl("get", "deployment", "-n", NAMESPACE))
    release.helm("upgrade", RELEASE, str(CHART), "--set=replicas=3", "--set=schedulerName=berth", "--wait")
    assert release.scheduler_name() == "berth"
    # `moorage up` checks no permissions, and issues no tokens: the scheduler uses the kubeconfig of the cluster.
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(release.config() | {"clientConnection": {"kubeconfig": str(embedded)}}))
    with scheduler(embedded, f"--config={config}", "--leader-elect=true", *LEASE) as process:
        overrides = '{"spec": {"schedulerName": "berth"}}'
        release.kubectl("run", "hello", "--image=app:1", f"--overrides={overrides}")
        release.kubectl("wait", "--for=condition=PodScheduled", "pod/hello", "--timeout=90s")
        assert release.lease_holder()
        assert process.stop() == 0
    release.helm("rollback", RELEASE, "1", "--wait")
    assert release.scheduler_name() == "moorage"
    release.helm("uninstall", RELEASE, "--wait")
    assert not release.kubectl("get", "clusterroles", "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name")


HOOKED_CHART: Final = {
    "Chart.yaml": "apiVersion: v2\nname: store\nversion: 1.0.0\n",
    "values.yaml": "replicas: 2\nstorage: 1Gi\n",
    "crds/backups.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.store.example.org}
spec:
  group: store.example.org
  scope: Namespaced
  names: {plural: backups, kind: Backup}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {keep: {type: integer, minimum: 1}}
              x-kubernetes-validations: [{rule: "self.keep < 10", message: keep fewer}]
""",
    "templates/_helpers.tpl": '{{- define "store.labels" -}}\napp: {{ .Release.Name }}\n{{- end }}\n',
    "templates/service.yaml": """
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}", labels: {{ include "store.labels" . | fromYaml | toJson }}}
spec: {clusterIP: None, selector: {app: "{{ .Release.Name }}"}, ports: [{name: sql, port: 5432}]}
""",
    "templates/statefulset.yaml": """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: "{{ .Release.Name }}"}
spec:
  serviceName: "{{ .Release.Name }}"
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      containers:
        - name: store
          image: store:1
          volumeMounts: [{name: data, mountPath: /data}]
          readinessProbe: {grpc: {port: 5432}}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "{{ .Values.storage }}"}}}
""",
    "templates/backup.yaml": """
apiVersion: store.example.org/v1
kind: Backup
metadata: {name: "{{ .Release.Name }}"}
spec: {keep: 3}
""",
    "templates/budget.yaml": """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: "{{ .Release.Name }}"}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: "{{ .Release.Name }}"}}}
""",
    **{
        f"templates/{name}.yaml": f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{{{ .Release.Name }}}}-{name}"
  annotations: {{helm.sh/hook: "{events}", helm.sh/hook-delete-policy: "{policy}"}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: "store:1", command: [sleep, "1"]}}]
"""
        for name, events, policy in (
            ("prepare", "pre-install,pre-upgrade", "before-hook-creation,hook-succeeded"),
            ("announce", "post-install", "before-hook-creation"),
            ("clean", "pre-delete", "hook-succeeded"),
        )
    },
    "templates/check.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "{{ .Release.Name }}-check", annotations: {helm.sh/hook: test}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "store:1", command: [sleep, "1"]}]
""",
}
"""A chart in the style of public ones: a definition, hooks, a database with claims, and a test."""


def test_chart_with_hooks_on_moorage_up(embedded: Path, tmp_path: Path) -> None:
    chart = tmp_path / "store"
    for name, text in HOOKED_CHART.items():
        file = chart / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    release = Installed(embedded, tmp_path)
    release.helm("install", "store", str(chart), "--create-namespace", "--wait", "--timeout=120s")
    assert release.kubectl("get", "jobs", "-n", NAMESPACE, "-o", "name").split() == ["job.batch/store-announce"]
    assert "2/2" in release.kubectl("get", "statefulset", "store", "-n", NAMESPACE)
    release.helm("upgrade", "store", str(chart), "--set=replicas=3", "--wait", "--timeout=120s")
    assert release.kubectl("get", "pvc", "-n", NAMESPACE, "--no-headers").count("Bound") == 3
    assert "Succeeded" in release.helm("test", "store", "--timeout=120s")
    release.helm("rollback", "store", "1", "--wait", "--timeout=120s")
    release.helm("uninstall", "store", "--wait", "--timeout=120s")
    assert not release.kubectl("get", "statefulsets,backups,poddisruptionbudgets", "-n", NAMESPACE, "-o", "name")
