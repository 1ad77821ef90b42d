"""Snapshots: objects read from a cluster, omitted fields, renamed objects, and invalid files."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.generator import generate
from tests.unit.insight.explain.clusters import node, pod, session

from moorage.cluster.apiserver.server import ApiServer
from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import cluster_of
from moorage.cluster.simulation.simulation import simulate
from moorage.common.errors import Forbidden, InputError
from moorage.insight.snapshots.anonymizer import Anonymizer
from moorage.insight.snapshots.cluster_reader import ReadCluster, read_cluster
from moorage.insight.snapshots.snapshot_file import SnapshotFacts, read_snapshot, write_snapshot
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import documents_of
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster, in_virtual_time

SECRET = "do-not-tell"
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
FAST = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"}


def read(*objects: dict[str, Any], **options: bool) -> ReadCluster:
    async def go() -> ReadCluster:
        async with ApiServer(plain=True) as server:
            credentials = FixedCredentials(f"Bearer {server.token}")
            async with ApiClient(Connection(server.plain_url, "here", credentials=credentials)) as client:
                import msgspec

                for obj in objects:
                    kind = BY_NAME[obj["kind"]]
                    where = kind.path(namespace="default" if kind.namespaced else "")
                    await client.request("POST", where, msgspec.json.encode(obj))
                return await read_cluster(client, **options)

    return asyncio.run(go())


def telling_pod() -> dict[str, Any]:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"note": SECRET, "kubernetes.io/config.mirror": "x"}
    waits["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": SECRET}], "command": [SECRET]}
    return waits


def test_secrets_are_omitted_by_default() -> None:
    assert SECRET not in str(read(node("n1"), telling_pod()).contents)
    assert SECRET in str(read(node("n1"), telling_pod(), with_annotations=True).contents)
    full_contents = str(read(node("n1"), telling_pod(), whole=True).contents)
    assert full_contents.count(SECRET) == 3


def telling_template() -> dict[str, Any]:
    """Return a template with a secret in every field that may contain one."""
    probe = {"exec": {"command": [SECRET]}}
    telling = dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe"), probe)
    main = {**telling_pod()["spec"]["containers"][0], **telling, "args": [SECRET], "workingDir": f"/{SECRET}"}
    volume = {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"password": SECRET}}}
    annotations = {"note": SECRET, "moorage.io/gang": "ring"}
    metadata = {"labels": {"app": "web"}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [main], "volumes": [volume]}}


def telling_workload(kind: str, app: str = "web") -> dict[str, Any]:
    template = telling_template()
    template["metadata"]["labels"]["app"] = app
    spec = {"selector": {"matchLabels": {"app": app}}, "template": template}
    if kind == "StatefulSet":
        claim: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
        claim["resources"] = {"requests": {"storage": "1Gi"}}
        claim_template = {"metadata": {"name": "data", "annotations": {"note": SECRET}}, "spec": claim}
        spec["volumeClaimTemplates"] = [claim_template]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app}, "spec": spec}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_templates_expose_no_more_than_pods(kind: str) -> None:
    contents = read(telling_workload(kind)).contents
    assert SECRET not in str(contents)
    template = next(item for item in contents if item["kind"] == kind)["spec"]["template"]
    assert template["metadata"]["annotations"] == {"moorage.io/gang": "ring"}
    assert template["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert SECRET in str(read(telling_workload(kind), whole=True).contents)


def test_parameters_of_storage_classes_stay_behind() -> None:
    contents = read({**FAST, "parameters": {"key": SECRET, "moorage.io/topology": "zone"}}).contents
    assert [item["parameters"] for item in contents if item["kind"] == "StorageClass"] == [
        {"moorage.io/topology": "zone"}
    ]


def test_snapshot_can_be_explained_and_patched(tmp_path: Path) -> None:
    snapshot = read(node("n1"), pod("a", requests={"cpu": "9"}))
    assert {"nodes", "pods"} <= snapshot.versions.keys()
    path = tmp_path / "cluster.json.gz"
    write_snapshot(path, snapshot.contents, source="here", versions=snapshot.versions)
    contents, facts = read_snapshot(str(path))
    assert (contents, facts.source) == (snapshot.contents, "here")
    from moorage.insight.explain.pods import explain_pod

    with session(*contents) as opened:
        assert explain_pod(opened, "default/a").changes[0].kind == "request"


def test_missing_permissions_are_all_named() -> None:
    class Refusing(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if "/nodes" in path or "csinodes" in path:
                raise Forbidden("no")
            return b'{"items": []}'

    async def go() -> None:
        await read_cluster(Refusing(Connection("http://localhost", "here")))

    with pytest.raises(InputError, match=r"no permission to list nodes, csinodes\.storage") as caught:
        asyncio.run(go())
    assert 'allow verb "list" on resource "nodes" of apiGroup ""' in str(caught.value)


@pytest.mark.parametrize("number", range(24))
def test_renaming_changes_no_decision(number: int) -> None:
    """The same pods go to the same nodes, under other names."""
    policy = load_policy(collect_plugins())
    case = generate(f"names/{number}", features=frozenset({"volumes", "devices"}))
    anonymizer = Anonymizer()
    renamed = anonymizer.anonymized(case.objects)

    def decisions(contents: Any) -> list[Any]:
        return DryRun(cluster_of(documents_of(contents, source="here")), policy).run()

    for was, now in zip(decisions(case.objects), decisions(renamed), strict=True):
        namespace, _, name = was.pod.partition("/")
        assert now.pod == f"{anonymizer.name(namespace)}/{anonymizer.name(name)}"
        if "error" in (was.result, now.result):
            return  # device names decide whether the allocator checks a broken or a suitable device first
        assert now.result == was.result
        if len(was.tied) < 2:
            assert now.node == (anonymizer.name(was.node) if was.node else "")


def settled_workloads() -> list[dict[str, Any]]:
    """Workloads with all their pods, as the controllers of a cluster have made them."""
    contents: list[dict[str, Any]] = []

    @in_virtual_time
    async def settle() -> None:
        async with Cluster(nodes=2) as cluster:
            await cluster.apply(FAST, *(telling_workload(kind, kind.lower()) for kind in WORKLOADS))
            await cluster.wait_for(lambda: len(cluster.running()) == len(WORKLOADS) + 1)  # of daemons there are two
            contents.extend((await read_cluster(cluster.client)).contents)

    settle()
    return contents


def test_workloads_stay_settled_under_other_names() -> None:
    """Controllers neither create nor delete pods: names and labels still match, and times are still valid."""
    renamed = Anonymizer().anonymized(settled_workloads())
    ran = simulate(cluster_of(documents_of(renamed, source="here")), load_policy(collect_plugins()))
    assert ran.decisions == []


def test_gangs_by_annotation_stay_gangs_under_other_names() -> None:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"moorage.io/gang": "team-ring", "moorage.io/gang-size": "3"}
    (pod_content,) = (content for content in read(waits).contents if content["kind"] == "Pod")
    assert pod_content["metadata"]["annotations"] == waits["metadata"]["annotations"]
    (renamed,) = Anonymizer().anonymized([pod_content])
    gang = renamed["metadata"]["annotations"]
    assert gang["moorage.io/gang-size"] == "3"
    assert gang["moorage.io/gang"] != "team-ring"


def test_ages_are_formatted() -> None:
    assert SnapshotFacts(0.0, "").age(3 * 86_400) == "3 days"


BAD_SNAPSHOTS = {
    "nothing": (None, "file not found"),
    "no JSON": (b"{", "not a snapshot"),
    "another file": (b'{"kind": "List", "items": []}', "the timestamp is missing"),
    "a list": (b"[]", "the timestamp is missing"),
}


@pytest.mark.parametrize(("body", "told"), BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS)
def test_invalid_snapshot_is_reported(body: bytes | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(InputError, match=told):
        read_snapshot(str(path))
