"""Random queue histories: the same seed gives the same steps. Our queue determines the possible next steps."""

import random
from collections.abc import Callable
from typing import Any

from tests.parity.queue_replay import Json, Replay

NODES = ("n1", "n2", "n3")
PODS = tuple(f"p{number}" for number in range(7))
REJECTORS = (
    "NodeResourcesFit",
    "NodeResourcesFit",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeUnschedulable",
    "NodeName",
    "InterPodAffinity",
    "PodTopologySpread",
    "VolumeBinding",
    "VolumeZone",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "SchedulingGates",
    "DefaultBinder",
)
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
TOLERATION = {"key": "k", "operator": "Exists"}
LIKE_ME = {"labelSelector": {"matchLabels": {"x": "y"}}, "topologyKey": "zone"}
AFFINITIES: tuple[Json, ...] = (
    {},
    {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [LIKE_ME]}},
    {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [LIKE_ME]}},
)
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **LIKE_ME}
CLAIMS = ("c1", "c2")


class Author:
    """Writes one history."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.gates = {"SchedulerPopFromBackoffQ": False} if seed % 5 == 4 else {}
        self.ours = Replay(self.gates)
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.others: dict[tuple[str, str], Json] = {}
        self.numbers = 0
        self.steps: list[Json] = []

    def write(self, length: int) -> Json:
        """Write a history of ``length`` steps; time passes after each, so that all pods have different ages."""
        for name in NODES[:2]:
            self._do(self._apply_node(name))
        verbs: dict[Callable[[], Json | None], int] = {
            self._change_pod: 26,
            self._change_node: 12,
            self._change_other: 8,
            self._pop: 24,
            self._fail: 22,
            self._succeed: 4,
            self._bind: 3,
            self._delete_pod: 5,
            self._delete_node: 2,
            self._activate: 3,
            self._move: 1,
            self._wait: 12,
        }
        while len(self.steps) < length:
            (verb,) = self.chance.choices(list(verbs), list(verbs.values()))
            step = verb()
            if step is not None:
                self._do(step)
                self._do({"do": "advance", "seconds": self.chance.randint(1, 400) / 1000})
        return {"featureGates": self.gates, "steps": self.steps}

    def _do(self, step: Json) -> None:
        self.ours.do(step)
        self.steps.append(step)

    def _maybe(self, probability: float, value: Any, other: Any = None) -> Any:
        return value if self.chance.random() < probability else other

    def _change_pod(self) -> Json | None:
        name = self.chance.choice(PODS)
        existing = self.pods.get(name)
        if existing is None or existing["spec"].get("nodeName"):
            if existing is not None:
                return self._deletion("Pod", name, self.pods)
            self.numbers += 1
            existing = self._new_pod(name)
        elif self.gates and self.ours.report()["pods"].get(f"default/{name}", {}).get("queue") == "unschedulable":
            # Without the gate, upstream may file a pod with two changes as both backing off and unschedulable.
            return None
        return self._apply_pod(self._changed_pod(existing))

    def _new_pod(self, name: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": f"{name}-{self.numbers}"},
            "spec": {
                "priority": self.chance.choice([0, 0, 10, 20]),
                "schedulerName": self._maybe(0.05, "other", "default-scheduler"),
                "schedulingGates": self._maybe(0.25, [{"name": "a"}, {"name": "b"}], []),
            },
        }

    def _changed_pod(self, pod: Json) -> Json:
        ports = self._maybe(0.3, [{"containerPort": 80, "hostPort": self.chance.choice([80, 81])}], [])
        requests = {"cpu": self.chance.choice(["500m", "1", "2", "3"])}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}, "ports": ports}
        before = pod["spec"]
        spec = {
            **before,
            "containers": before.get("containers")
            if "containers" in before and self._maybe(0.6, True)
            else [container],
            "tolerations": self._maybe(0.3, [TOLERATION], before.get("tolerations", [])),
            "nodeSelector": before.get("nodeSelector") or self._maybe(0.3, {"zone": self.chance.choice("ab")}, {}),
            "affinity": before.get("affinity") or self.chance.choice(AFFINITIES),
            "topologySpreadConstraints": before.get("topologySpreadConstraints") or self._maybe(0.3, [SPREAD], []),
            "volumes": before.get("volumes") or self._maybe(0.3, [self._volume()], []),
            "schedulingGates": before["schedulingGates"][self.chance.choice([0, 0, 1, 2]) :],
        }
        if "containers" not in before:
            spec["schedulingGates"] = before["schedulingGates"]
        labels = self._maybe(0.3, {"x": self.chance.choice("yz")}, pod["metadata"].get("labels", {}))
        nominated = self._maybe(0.25, self.chance.choice(["", *NODES]), pod.get("status", {}).get("nominatedNodeName"))
        status = {"nominatedNodeName": nominated} if nominated else {}
        return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec, "status": status}

    def _volume(self) -> Json:
        return {"name": "v", "persistentVolumeClaim": {"claimName": self.chance.choice(CLAIMS)}}

    def _change_other(self) -> Json:
        created = self.chance.choice([self._claim, self._persistent_volume, self._storage_class, self._csi_node])()
        metadata = created["metadata"]
        if self.others.pop((created["kind"], metadata["name"]), None) is not None and self.chance.random() < 0.3:
            identity = {key: value for key, value in metadata.items() if key in ("name", "namespace")}
            return {"do": "delete", "object": {**created, "metadata": identity}}
        self.others[created["kind"], metadata["name"]] = created
        return {"do": "apply", "object": created}

    def _claim(self) -> Json:
        name = self.chance.choice(CLAIMS)
        spec: Json = {
            "accessModes": [self.chance.choice(["ReadWriteOnce", "ReadWriteOncePod"])],
            "storageClassName": "sc",
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": self._maybe(0.5, "pv1", ""),
        }
        metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    def _persistent_volume(self) -> Json:
        labels = self._maybe(0.5, {"topology.kubernetes.io/zone": self.chance.choice("ab")}, {})
        spec = {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.chance.choice(["sc", "other"]),
            "hostPath": {"path": "/data"},
        }
        metadata = {"name": "pv1", "uid": "pv1", "labels": labels}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}

    def _storage_class(self) -> Json:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "sc", "uid": "sc"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": self._maybe(
                0.5, [{"matchLabelExpressions": [{"key": "zone", "values": [self.chance.choice("ab")]}]}], []
            ),
        }

    def _csi_node(self) -> Json:
        name = self.chance.choice(NODES)
        drivers = [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": self.chance.randint(1, 3)}}]
        metadata = {"name": name, "uid": f"csi-{name}"}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": metadata,
            "spec": {"drivers": drivers},
        }

    def _apply_pod(self, pod: Json) -> Json:
        self.pods[pod["metadata"]["name"]] = pod
        return {"do": "apply", "object": pod}

    def _change_node(self) -> Json:
        return self._apply_node(self.chance.choice(NODES))

    def _apply_node(self, name: str) -> Json:
        before = self.nodes.get(name, {"metadata": {"labels": {}}, "spec": {}, "status": {"allocatable": {}}})
        cpu = self._maybe(
            0.5, self.chance.choice(["1", "2", "4", "4000m"]), before["status"]["allocatable"].get("cpu", "2")
        )
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"node-{name}",
                "labels": self._maybe(0.3, {"zone": self.chance.choice("ab")}, before["metadata"]["labels"]),
            },
            "spec": {
                "unschedulable": self._maybe(0.3, True, False),
                "taints": self._maybe(0.3, self._maybe(0.5, [TAINT], []), before["spec"].get("taints", [])),
            },
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
        }
        self.nodes[name] = node
        return {"do": "apply", "object": node}

    def _pop(self) -> Json | None:
        # Without the gate, the oracle's queue would block here for a pod in backoff.
        if self.gates and not self.ours.queue.sizes().active:
            return None
        return {"do": "pop"}

    def _flying(self) -> str | None:
        flying = [key for key in self.ours.popped if key.startswith("default/")]
        return self.chance.choice(flying) if flying else None

    def _fail(self) -> Json | None:
        key = self._flying()
        if key is None:
            return None
        step: Json = {"do": "fail", "pod": key}
        if self.chance.random() < 0.85:
            step["unschedulablePlugins"] = sorted(set(self.chance.choices(REJECTORS, k=self.chance.randint(1, 2))))
            if self.chance.random() < 0.2:
                step["pendingPlugins"] = step["unschedulablePlugins"][:1]
        if self.chance.random() < 0.2:
            step["nominatedNode"] = self.chance.choice(["", *NODES])
        return step

    def _succeed(self) -> Json | None:
        key = self._flying()
        if key is None or self.ours.rig.cache.pod(self.ours.popped[key].uid) is not None:
            return None
        return {"do": "succeed", "pod": key, "node": self.chance.choice(NODES)}

    def _bind(self) -> Json | None:
        waiting = sorted(name for name, pod in self.pods.items() if not pod["spec"].get("nodeName"))
        if not waiting:
            return None
        pod = self.pods[self.chance.choice(waiting)]
        assumed = self.ours.rig.cache.pod(pod["metadata"]["uid"])
        node = self.chance.choice(NODES) if assumed is None else assumed.node_name
        return self._apply_pod({**pod, "spec": {**pod["spec"], "nodeName": node}})

    def _delete_pod(self) -> Json | None:
        return self._deletion("Pod", self.chance.choice(PODS), self.pods)

    def _delete_node(self) -> Json | None:
        return self._deletion("Node", self.chance.choice(NODES), self.nodes)

    def _deletion(self, kind: str, name: str, existing: dict[str, Json]) -> Json | None:
        if existing.pop(name, None) is None:
            return None
        metadata = {"name": name} | ({"namespace": "default"} if kind == "Pod" else {})
        return {"do": "delete", "object": {"apiVersion": "v1", "kind": kind, "metadata": metadata}}

    def _activate(self) -> Json | None:
        names = sorted(self.chance.sample(sorted(self.pods), k=min(2, len(self.pods))))
        return {"do": "activate", "pods": [f"default/{name}" for name in names]} if names else None

    def _move(self) -> Json:
        return {"do": "move", "event": {"resource": "*", "actions": ["All"]}}

    def _wait(self) -> Json:
        return {"do": "advance", "seconds": self.chance.choice([0.5, 1, 1.25, 2, 3, 5, 11, 40, 320])}


def history(seed: int, length: int = 120) -> Json:
    """Write the history of a seed."""
    return Author(seed).write(length)
