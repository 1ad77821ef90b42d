"""`moorage capacity`."""

import json
from pathlib import Path

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod

from moorage.cli.main import run


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", requests={"cpu": "3"})["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    manifests = [
        node("n1"),
        node("n2"),
        pod("big", requests={"cpu": "5"}),
        pod("fits"),
        pod("runs", on="n1"),
        pod("foreign", schedulerName="other"),
        deleted(pod("leaving")),
        deleted(pod("stopping", on="n1", requests={"cpu": "0"})),
        {**pod("ended", on="n1"), "status": {"phase": "Failed"}},
        deployment,
    ]
    return written(tmp_path / "cluster.json", manifests)


def deleted(manifest: Object) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def written(path: Path, manifests: list[Object]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    return str(path)


def test_capacity_reports_the_obstacle_of_the_next_copy(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod_file = written(tmp_path / "pod.json", [pod("small", requests={"cpu": "2"})])
    assert run(["capacity", pod_file, "-f", cluster]) == 0
    output = capsys.readouterr().out
    assert "3 more copies of small fit" in output
    assert "The next copy does not fit: 0/2 nodes are available" in output


def test_first_of_several_pods_is_used_and_named(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod_file = written(tmp_path / "pods.json", [pod("small"), pod("large", requests={"cpu": "4"})])
    assert run(["capacity", pod_file, "-f", cluster]) == 0
    output = capsys.readouterr()
    assert output.err == f"note: {pod_file} has 2 pods; small is used\n"
    assert "more copies of small fit" in output.out
