"""Workloads in described clusters: their pods are made by the embedded cluster's controllers, and placed."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moorage.cluster.dry_run import add_workload_pods
from moorage.cluster.files.loading import build_cluster_input
from moorage.cluster.runs.history import Run
from moorage.cluster.simulation.simulation import simulate
from moorage.common.errors import InputError
from moorage.kube.features import FeatureGates
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

Object = dict[str, Any]
LABELS = {"app": "x"}
SELECTED = {"selector": {"matchLabels": LABELS}}


def node(name: str, **allocatable: object) -> Object:
    room = {"cpu": 4, "memory": "8Gi", "pods": 20, **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def template(cpu: str = "1", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"labels": LABELS, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def workload(kind: str, **spec: Any) -> Object:
    groups = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}
    return {"apiVersion": groups.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def run(*objects: Object, until: float | None = None) -> Run:
    return simulate(build_cluster_input(objects), load_policy(collect_plugins()), until=until)


def nodes_of(result: Run) -> Counter[str]:
    return Counter(decision.node for decision in result.decisions)


MAKERS: dict[str, tuple[Object, int]] = {
    "a deployment": (workload("Deployment", replicas=3, template=template(), **SELECTED), 3),
    "a replica set": (workload("ReplicaSet", replicas=3, template=template(), **SELECTED), 3),
    "a replication controller": (workload("ReplicationController", replicas=2, template=template()), 2),
    "a stateful set, pod after pod": (
        workload("StatefulSet", replicas=3, serviceName="x", template=template(), **SELECTED),
        3,
    ),
    "a daemon set, on every node": (workload("DaemonSet", template=template(), **SELECTED), 2),
    "a job, completion after completion": (
        workload("Job", completions=4, parallelism=1, template=template(restartPolicy="Never")),
        4,
    ),
    "a workload with only a selector": (workload("ReplicaSet", **SELECTED), 0),
}


@pytest.mark.parametrize(("manifest", "pods"), MAKERS.values(), ids=MAKERS)
def test_pods_are_made_and_placed(manifest: Object, pods: int) -> None:
    result = run(node("a"), node("b"), manifest)

    assert [decision.result for decision in result.decisions] == ["scheduled"] * pods
    assert all(decision.pod.startswith("default/x-") for decision in result.decisions)


FIRST: dict[str, tuple[Object, int]] = {
    **{name: MAKERS[name] for name in ("a deployment", "a replication controller", "a daemon set, on every node")},
    "only the first pod of a stateful set": (MAKERS["a stateful set, pod after pod"][0], 1),
    "the parallel pods of a job": (MAKERS["a job, completion after completion"][0], 1),
}


@pytest.mark.parametrize(("manifest", "pods"), FIRST.values(), ids=FIRST)
def test_one_pass_includes_pods_of_controllers(manifest: Object, pods: int) -> None:
    cluster = add_workload_pods(build_cluster_input([node("a"), node("b"), manifest]), FeatureGates())

    assert len(cluster.pending) == pods
    assert len(cluster.nodes) == 2


def test_cluster_without_workloads_is_unchanged() -> None:
    cluster = build_cluster_input([node("a"), MAKERS["a workload with only a selector"][0]])
    assert add_workload_pods(cluster, FeatureGates()) is cluster


def test_capacity_of_finished_jobs_is_used() -> None:
    job = workload("Job", completions=6, parallelism=6, template=template("2", restartPolicy="Never"))
    result = run(node("a"), job)

    assert nodes_of(result) == {"a": 6}
    assert {record.phase for record in result.timeline} == {"Succeeded"}
    assert max(decision.attempts for decision in result.decisions) > 1


def test_a_cron_job_makes_jobs_until_time_is_up() -> None:
    jobs = {"spec": {"template": template(restartPolicy="Never")}}
    result = run(node("a"), workload("CronJob", schedule="*/10 * * * *", jobTemplate=jobs), until=3600.0)

    assert len(result.decisions) == 6
    assert (result.seconds, result.is_quiet) == (3600.0, False)


def test_limit_ranges_shape_the_pods_of_workloads() -> None:
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limits}
    manifest = workload("ReplicaSet", replicas=2, template=template(), **SELECTED)
    del manifest["spec"]["template"]["spec"]["containers"][0]["resources"]

    assert nodes_of(run(node("a"), manifest, limit_range)) == {"a": 1, "": 1}


def owned(name: str, kind: str, uid: str, **labels: str) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": uid, "controller": True}
    metadata = {"name": name, "labels": {**LABELS, **labels}, "ownerReferences": [owner]}
    spec = {"nodeName": "a", "containers": [{"name": "c", "image": "x:1"}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet", "ReplicaSet"])
def test_pods_of_a_dumped_cluster_remain(kind: str) -> None:
    """Another controller computed their revision hash: this must not replace pods."""
    manifest = workload(kind, template=template(), **SELECTED)
    manifest["metadata"]["uid"] = "u1"
    result = run(node("a"), manifest, owned("x-0", kind, "u1", **{"controller-revision-hash": "x-5d4f8c7b9"}))

    assert result.decisions == []
    assert [(record.pod, record.deleted) for record in result.timeline] == [("default/x-0", None)]


def test_objects_with_missing_owners_are_not_garbage() -> None:
    manifest = workload("Deployment", replicas=1, template=template(), **SELECTED)
    stray = owned("stray", "ReplicaSet", "elsewhere")
    result = run(node("a"), manifest, stray)

    assert [record.deleted for record in result.timeline if record.pod == "default/stray"] == [None]


def test_workload_without_a_template_creates_no_pods() -> None:
    """The scheduler reads it; its controller must neither create pods nor delete the pods that refer to it."""
    selects = workload("ReplicaSet", replicas=0, **SELECTED)
    selects["metadata"] = {"name": "y", "uid": "u1"}
    deployment = workload("Deployment", replicas=1, template=template(), **SELECTED)
    result = run(node("a"), selects, deployment, owned("y-1", "ReplicaSet", "u1"), owned("y-2", "ReplicaSet", "u1"))

    assert len(result.decisions) == 1
    assert {record.deleted for record in result.timeline} == {None}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_invalid_workload_is_still_read_by_the_scheduler(kind: str) -> None:
    manifest = workload(kind, selector={"matchLabels": {"app": "other"}}, template=template())
    cluster = build_cluster_input([manifest])

    assert (len(cluster.objects), cluster.workloads) == (2, ())
    assert "`selector` does not match template `labels`" in cluster.selecting[f"the input, object 1 ({kind} x)"]


BAD: dict[str, tuple[Object, str]] = {
    "no selector": (
        workload("Deployment", template=template()),
        'Deployment.apps "x" is invalid: [spec.selector: Required value, ',
    ),
    "a template without containers": (
        workload("DaemonSet", template={"metadata": {"labels": LABELS}}, **SELECTED),
        "spec.template.spec.containers: Required value",
    ),
    "an invalid quantity": (
        workload("Deployment", template=template("much"), **SELECTED),
        "(Deployment x)",
    ),
    "a missing priority class": (
        workload("Deployment", template=template(priorityClassName="high"), **SELECTED),
        "(Deployment x), the pod template, spec.priorityClassName: ",
    ),
    "an invalid schedule": (
        workload("CronJob", schedule="now", jobTemplate={"spec": {"template": template(restartPolicy="Never")}}),
        "spec.schedule",
    ),
}


@pytest.mark.parametrize(("manifest", "message"), BAD.values(), ids=BAD)
def test_invalid_workload_is_rejected(manifest: Object, message: str) -> None:
    with pytest.raises(InputError) as raised:
        build_cluster_input([manifest])
    assert message in str(raised.value)


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    manifests = [node("a", cpu=20), node("b", cpu=20)]
    manifests += [
        {**manifest, "metadata": {"name": f"x{number}"}} for number, (manifest, _) in enumerate(MAKERS.values())
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    program = "from moorage.cli.main import main; raise SystemExit(main())"
    command = (sys.executable, "-c", program, "simulate", "-f", str(file), "-o", "json")
    printed = [
        subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(json.loads(printed[0])["decisions"]) == 17
