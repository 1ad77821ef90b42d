"""`python -m benchmarks.explaining`: measure the search for changes on a large cluster, for typical pods."""

import argparse
from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from moorage.insight.explain.pods import explain_pod
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

NODES: Final = 5000
PODS_PER_NODE: Final = 10
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
Object = dict[str, Any]


def cluster(nodes: int, pods_per_node: int) -> Iterator[Object]:
    """Describe a cluster of full nodes in ten zones, some tainted, with pods of three priorities."""
    for number in range(nodes):
        name = f"node-{number}"
        labels = {HOSTNAME: name, ZONE: f"zone-{number % 10}", "pool": f"pool-{number % 4}"}
        spec = {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]} if number % 50 == 0 else {}
        allocatable = {"cpu": "10", "memory": "40Gi", "pods": "110"}
        yield _manifest("Node", name, labels=labels, spec=spec, status={"allocatable": allocatable})
        for index in range(0 if spec else pods_per_node):
            labels = {"app": f"app-{index}"}
            pod = _pod(f"running-{number}-{index}", {"cpu": "980m", "memory": "3Gi"}, labels=labels, nodeName=name)
            yield {**pod, "status": {"phase": "Running"}}


WAITING: Final[dict[str, Object]] = {
    "too much cpu": {"requests": {"cpu": "2"}},
    "cpu and memory": {"requests": {"cpu": "11", "memory": "41Gi"}},
    "an untolerated taint": {"requests": {"cpu": "4"}},
    "a selector that no node meets": {"requests": {"cpu": "100m"}, "nodeSelector": {"pool": "pool-9"}},
    "anti-affinity everywhere": {
        "requests": {"cpu": "100m"},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "app-1"}}}
                ]
            }
        },
    },
    "a spread that is uneven": {
        "requests": {"cpu": "100m"},
        "labels": {"app": "app-2"},
        "nodeSelector": {ZONE: "zone-1"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "pool",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "app-2"}},
                "nodeAffinityPolicy": "Ignore",
            }
        ],
    },
}


def _pod(name: str, requests: Object, labels: Object, **spec: Any) -> Object:
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return _manifest("Pod", name, labels=labels, spec={"containers": [container], **spec})


def _manifest(kind: str, name: str, *, labels: Object, **parts: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}, **parts}


def main() -> None:
    """Print a table of seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explaining", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods-per-node", type=int, default=PODS_PER_NODE)
    arguments = parser.parse_args()
    objects = list(cluster(arguments.nodes, arguments.pods_per_node))
    for number, template in enumerate(WAITING.values()):
        fields = dict(template)
        objects.append(
            _pod(f"waiting-{number}", fields.pop("requests"), fields.pop("labels", {"app": "waiting"}), **fields)
        )
    began = perf_counter()
    session = Session(to_documents(objects, source="here"), load_policy(collect_plugins()))
    console = Console()
    console.print(f"{len(objects)} objects read in {perf_counter() - began:.1f} s")
    table = Table("what is in the way", "seconds", "of CPU", "changes")
    for number, obstacle in enumerate(WAITING):
        began, worked = perf_counter(), process_time()
        explained = explain_pod(session, f"default/waiting-{number}", seconds=30)
        kinds = ", ".join(change.kind for change in explained.changes)
        times = f"{perf_counter() - began:.2f}", f"{process_time() - worked:.2f}"
        table.add_row(obstacle, *times, kinds or "none")
    console.print(table)
    session.close()


if __name__ == "__main__":
    main()
