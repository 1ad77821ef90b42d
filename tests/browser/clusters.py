"""Sample clusters: a small one with all features, and larger ones."""

from random import Random
from typing import Any

from tests.unit.insight.page.clusters import Content, node, pod

POOLS = ("general", "general", "general", "large", "gpu")


def machine(number: int, digits: int = 3) -> Content:
    """Describe one of many nodes: three zones, twelve racks, three pools."""
    pool = POOLS[number % len(POOLS)]
    size = {"general": ("16", "64Gi"), "large": ("64", "256Gi"), "gpu": ("32", "128Gi")}[pool]
    allocatable = {"cpu": size[0], "memory": size[1], "pods": "110"}
    spec: dict[str, Any] = {}
    if pool == "gpu":
        allocatable["nvidia.com/gpu"] = "8"
        spec["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    if number % 53 == 7:
        spec["unschedulable"] = True
    labels = {
        "topology.kubernetes.io/zone": f"zone-{'abc'[number % 3]}",
        "example.com/rack": f"rack-{number % 12:02d}",
        "example.com/pool": pool,
    }
    machine_node = node(f"node-{number:0{digits}d}", labels=labels, spec=spec, allocatable=allocatable)
    machine_node["status"]["conditions"] = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
    ]
    for condition in machine_node["status"]["conditions"]:
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    return machine_node


def owned(content: Content, kind: str, name: str) -> Content:
    """Give a pod its controller."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    content["metadata"]["ownerReferences"] = [owner]
    return content


def placed(number: int, free: dict[str, float], chance: Random) -> Content:
    """Describe a pod that runs on some node with free capacity."""
    cpu, memory = chance.choice((("250m", "512Mi"), ("500m", "2Gi"), ("1", "4Gi"), ("2", "4Gi")))
    names = list(free)
    name = next((name for name in (chance.choice(names) for _ in range(50)) if free[name] >= 2), names[0])
    free[name] -= 2
    created = pod(f"web-{number:05d}", node=name)
    created["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    return owned(created, "ReplicaSet", f"web-{number % 40:02d}")


def waits(number: int) -> Content:
    """Describe a pending pod with one of five reasons."""
    created = pod(f"job-{number:05d}", "2")
    created["metadata"]["namespace"] = "batch"
    spec, requests = created["spec"], created["spec"]["containers"][0]["resources"]["requests"]
    match number % 10:
        case 0 | 1 | 2 | 3:
            requests["cpu"] = "96"
        case 4 | 5:
            requests["nvidia.com/gpu"] = "4"
        case 6 | 7:
            spec["nodeSelector"] = {"disk": "ssd"}
        case 8:
            spec["schedulingGates"] = [{"name": "example.com/quota"}]
        case _:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return owned(created, "Job", ("render", "render", "train", "index", "report")[number % 10 // 2])


def fleet(nodes: int, pods: int, waiting: int) -> list[Content]:
    """Describe a complete, reproducible cluster."""
    chance, machines = Random(1), [machine(number, len(str(nodes - 1))) for number in range(nodes)]
    free = {item["metadata"]["name"]: float(item["status"]["allocatable"]["cpu"]) * 1.5 for item in machines}
    return [
        *machines,
        *(placed(number, free, chance) for number in range(pods)),
        *(waits(number) for number in range(waiting)),
    ]


def others(count: int) -> list[Content]:
    """Describe pods that are pending for different reasons."""
    return [pod(f"odd-{number:05d}", schedulerName=f"scheduler-{number:05d}") for number in range(count)]


MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
"""
