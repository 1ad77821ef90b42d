"""A cluster with secrets, for snapshots."""

import asyncio
from typing import Any

from tests.unit.insight.explain.clusters import pod

from moorage.cluster.apiserver.server import ApiServer
from moorage.insight.snapshots.cluster_reader import ReadCluster, read_cluster
from moorage.kube.api.kinds import KINDS
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient

SECRET = "do-not-tell"
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
FAST = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"}


def read(*objects: dict[str, Any], **options: Any) -> ReadCluster:
    async def go() -> ReadCluster:
        async with ApiServer(plain=True) as server:
            credentials = FixedCredentials(f"Bearer {server.token}")
            async with ApiClient(Connection(server.plain_url, "here", credentials=credentials)) as client:
                import msgspec

                for obj in objects:
                    kind = next(item for item in KINDS if item.name == obj["kind"])
                    namespace = obj["metadata"].get("namespace", "default") if kind.namespaced else ""
                    where = kind.path(namespace=namespace)
                    await client.request("POST", where, msgspec.json.encode(obj))
                return await read_cluster(client, **options)

    return asyncio.run(go())


def secret_pod() -> dict[str, Any]:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"note": SECRET, "kubernetes.io/config.mirror": "x"}
    waits["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": SECRET}], "command": [SECRET]}
    return waits


def secret_template() -> dict[str, Any]:
    """Return a template with a secret in every field that may contain one."""
    probe = {"exec": {"command": [SECRET]}}
    telling = dict.fromkeys(("startupProbe", "livenessProbe", "readinessProbe"), probe)
    main = {**secret_pod()["spec"]["containers"][0], **telling, "args": [SECRET], "workingDir": f"/{SECRET}"}
    volume = {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"password": SECRET}}}
    annotations = {"note": SECRET, "moorage.io/gang": "ring"}
    metadata = {"labels": {"app": "web"}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [main], "volumes": [volume]}}


def secret_workload(kind: str, app: str = "web") -> dict[str, Any]:
    template = secret_template()
    template["metadata"]["labels"]["app"] = app
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": app}}, "template": template}
    if kind == "StatefulSet":
        claim: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
        claim["resources"] = {"requests": {"storage": "1Gi"}}
        claim_template = {"metadata": {"name": "data", "annotations": {"note": SECRET}}, "spec": claim}
        spec["volumeClaimTemplates"] = [claim_template]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app}, "spec": spec}
