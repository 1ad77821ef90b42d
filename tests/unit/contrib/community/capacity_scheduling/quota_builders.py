"""Quotas, pods and plugins for the tests of CapacityScheduling."""

from moorage.contrib.community.capacity_scheduling.plugin import (
    ElasticQuota,
    ElasticQuotaSpec,
)
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig


def quota(namespace: str, least: str | None = "4", most: str | None = "6", name: str = "q") -> ElasticQuota:
    spec = ElasticQuotaSpec({"cpu": least} if least else {}, {"cpu": most} if most else {})
    return ElasticQuota(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}-{name}"), spec=spec)


def pod(name: str, namespace: str, cpu: str = "2", *, node: str = "", priority: int = 0) -> Pod:
    return make_pod(
        name,
        namespace=namespace,
        requests={"cpu": cpu, "memory": "1Gi"},
        node=node,
        priority=priority,
        uid=f"uid-{name}",
    )


def rig_with(*objects: object, used: dict[str, int] | None = None) -> Rig:
    """Return a cluster of 20 CPUs with the given usage per namespace."""
    rig = Rig(make_node("n", allocatable={"cpu": "20", "memory": "99Gi", "pods": "110"}), *objects)  # type: ignore[arg-type]
    for namespace, cpu in (used or {}).items():
        if cpu:
            rig.add(pod(f"{namespace}-runs", namespace, str(cpu), node="n"))
    return rig
