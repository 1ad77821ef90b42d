"""The sample pending pods: the first fix of `moorage explain`, applied with kubectl, lets all of them run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.kube.patches import json_patch

PENDING = Path(__file__).parents[2] / "examples" / "pending"
MOORAGE = (sys.executable, "-c", "from moorage.cli.main import main; main()")
SAMPLES = {
    "too-big": "request",
    "wants-ssd": "selector",
    "wants-company": "affinity",
    "gated": "gate",
    "port-taken": "add-node",
    "too-uneven": "spread",
    "claim-missing": "claim",
}
ENOUGH = 120.0

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("up") / "kubeconfig"
    manifests = str(PENDING / "pods.yaml")
    options = ("--nodes", "3", "--shape", "cpu=4,memory=8Gi", "--kubeconfig", str(file), "-f", manifests)
    with subprocess.Popen((*MOORAGE, "up", *options), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("nodes 3/3 ready"):
            assert running.poll() is None
        placed = ("pod/agent-1", "pod/agent-2", "pod/agent-3", "pod/spread-1")
        kubectl(file, "wait", "--for=condition=Ready", *placed, "--timeout=60s")
        yield file
        os.kill(running.pid, signal.SIGINT)
        running.communicate(timeout=ENOUGH)


def kubectl(kubeconfig: Path, *arguments: str, body: Any = None) -> str:
    value = None if body is None else json.dumps(body)
    command = ("kubectl", "--kubeconfig", str(kubeconfig), *arguments)
    result = subprocess.run(command, input=value, capture_output=True, text=True, timeout=ENOUGH, check=False)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def explain(*arguments: str) -> Any:
    command = (*MOORAGE, "explain", *arguments, "-o", "json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=ENOUGH, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def carry_out(kubeconfig: Path, edit: dict[str, Any]) -> None:
    """Apply an edit as a user would."""
    if "create" in edit:
        kubectl(kubeconfig, "create", "-f", "-", body=edit["create"])
        return
    if "delete" in edit:
        kubectl(kubeconfig, "delete", edit["delete"]["kind"], edit["delete"]["name"])
        return
    target = edit["object"]
    if edit["apply"] == "patch":
        kubectl(kubeconfig, "patch", target["kind"], target["name"], "--type=json", "-p", json.dumps(edit["patch"]))
        return
    response = json.loads(kubectl(kubeconfig, "get", target["kind"], target["name"], "-o", "json"))
    changed = json_patch(response, edit["patch"])
    changed.pop("status", None)
    retained = {key: changed["metadata"][key] for key in ("name", "namespace", "labels") if key in changed["metadata"]}
    kubectl(kubeconfig, "replace", "--force", "-f", "-", body={**changed, "metadata": retained})


@pytest.mark.parametrize(("pod", "kind"), SAMPLES.items())
def test_first_change_makes_the_pod_run(kubeconfig: Path, pod: str, kind: str) -> None:
    explained = explain(pod, "--kubeconfig", str(kubeconfig))
    first = explained["changes"][0]
    assert first["kind"] == kind
    for edit in first["edits"]:
        carry_out(kubeconfig, edit)
    kubectl(kubeconfig, "wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")


@pytest.mark.parametrize(("pod", "kind"), SAMPLES.items())
def test_files_have_the_same_explanation_as_the_cluster(pod: str, kind: str, tmp_path: Path) -> None:
    """Without a cluster, the test sets the nodes of running pods."""
    import yaml

    objects = [obj for name in ("nodes", "pods") for obj in yaml.safe_load_all((PENDING / f"{name}.yaml").read_text())]
    homes = {"agent-1": "node-1", "agent-2": "node-2", "agent-3": "node-3", "spread-1": "node-1"}
    for obj in objects:
        if home := homes.get(obj["metadata"]["name"]):
            obj["spec"]["nodeName"] = home
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert explain(pod, "-f", str(file))["changes"][0]["kind"] == kind
