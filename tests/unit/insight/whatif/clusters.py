"""Small clusters as plain data, for sessions."""

from typing import Any

from moorage import CycleState, FilterPlugin, NodeInfo, NodeNames, Pod, PreFilterPlugin, ScorePlugin, Status
from moorage.insight.whatif.session import Session


class Good(FilterPlugin, ScorePlugin):
    """Wants good nodes, the higher the number the better."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.labels["good"] != "0" else Status.unresolvable("node(s) were not good")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels["good"])


class OnlyB(PreFilterPlugin, FilterPlugin):
    """Gets the nodes, or an empty list, before it filters any node."""

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: object) -> NodeNames | Status | None:
        if pod.labels.get("any"):
            return Status.skip()
        return Status.unresolvable("never") if pod.labels.get("never") else NodeNames(frozenset(("b",)))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


def node(name: str, good: int, cpu: str = "4") -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"good": str(good)}},
        "status": status,
    }


def pod(name: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "a:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


NODES = [node("a", 0), node("b", 50), node("c", 80), node("d", 90, cpu="1")]
FITS = {"fits": True, "plugin": "", "code": "", "reason": ""}


def read_state(opened: Session) -> object:
    rows = {
        info.name: (
            {pod.key: pod.metadata.resource_version for pod in info.pods.values()},
            {name: amount for name, amount in info.requested.items() if amount},
            info.node,
        )
        for info in opened.scheduler.cache.nodes
    }
    objects = {kind: opened.objects.known(kind) for kind in ("Pod", "Node", "PersistentVolumeClaim", "PriorityClass")}
    return rows, {kind: set(names) for kind, names in objects.items()}
