"""Random objects from the schemas of their kinds, and ways to damage them."""

import random
from collections.abc import Callable
from typing import Any, Final

from moorage.kube.resources import ServedResource
from moorage.kube.schema import Field, Schema, find_kind_schema
from tests.support.api import budget, definition, deployment, node, pod

Data = dict[str, Any]
NAMES: Final = ("web", "n1", "shop", "x.y")
TEXTS: Final = (
    *(
        "",
        "a",
        "web",
        "default",
        "Always",
        "NoSchedule",
        "Exists",
        "In",
        "kubernetes.io/hostname",
        "TCP",
        "10Gi",
        "500m",
    ),
    *(
        "2026-01-01T00:00:00Z",
        "x" * 300,
        "\u00e9\U0001f600",
        "a/b/c",
        "$patch",
        "delete",
        "../..",
        "%00",
        "-1",
        "1e999",
    ),
)
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, "", "x", "\x00", "9" * 400),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"b": [1, "x"]}}, ["a", 1, None], {"$patch": "delete"}),
    *({"name": "web"}, {"key": "a", "operator": "In", "values": []}, [{"name": "main"}, {"name": "main"}]),
)
KEYS: Final = (
    *("metadata", "spec", "status", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"),
    *("resourceVersion", "uid", "$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers", "", "é", "kind", "foo"),
)
DEEPEST: Final = 5


class Things:
    """Generates valid and invalid objects."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._simple: dict[str, Callable[[], Any]] = {
            "string": lambda: chance.choice(TEXTS),
            "int32": lambda: chance.choice((0, 1, 3, 80, -1, 2**31 - 1)),
            "int64": lambda: chance.choice((0, 1, 30, -1, 2**63 - 1)),
            "bool": lambda: chance.random() < 0.5,
            "quantity": lambda: chance.choice(("1", "500m", "10Gi", 4, "1e3", "0.1", "lots")),
            "time": lambda: chance.choice(("2026-01-01T00:00:00Z", "now")),
            "microtime": lambda: chance.choice(("2026-01-01T00:00:00.000000Z", "then")),
            "intorstring": lambda: chance.choice((1, "50%", "http", -3)),
            "bytes": lambda: chance.choice(("YQ==", "?")),
            "strings": lambda: [chance.choice(TEXTS)],
            "raw": lambda: {"a": 1},
            "fields": lambda: {"f:a": {}},
        }

    def thing(self, resource: ServedResource) -> Data:
        """Generate an object of a resource: a valid one, or any that its schema allows."""
        kind = {"apiVersion": resource.api_version, "kind": resource.name}
        good = GOOD.get(resource.plural)
        if good is not None and self.chance.random() < 0.6:
            obj: Data = {**good(), **kind}
        else:
            schema = find_kind_schema(resource.api_version, resource.name)
            obj = {**(self._struct(schema, 0) if schema is not None else {"spec": {"most": 2}}), **kind}
        obj["metadata"] = {**(obj.get("metadata") or {}), "name": self.chance.choice(NAMES)}
        if self.chance.random() < 0.7:
            # Server-only fields would cause the rejection of nearly every object.
            for name in ("resourceVersion", "namespace", "uid", "deletionTimestamp", "managedFields"):
                obj["metadata"].pop(name, None)
        return obj

    def _struct(self, schema: Schema, depth: int) -> Data:
        most = len(schema.by_name) if depth == 0 else 3
        selected = self.chance.sample(sorted(schema.by_name), min(most, len(schema.by_name)))
        return {name: self._content(schema.by_name[name], depth + 1) for name in selected if depth < DEEPEST}

    def _content(self, field: Field, depth: int) -> Any:
        if field.shape == "list":
            return [self._single(field, depth) for _ in range(self.chance.choice((0, 1, 1, 2)))]
        if field.shape == "map":
            return {self.chance.choice(TEXTS): self._single(field, depth) for _ in range(self.chance.choice((0, 1, 2)))}
        return self._single(field, depth)

    def _single(self, field: Field, depth: int) -> Any:
        schema = field.schema
        if schema is not None:
            return self._struct(schema, depth)
        make = self._simple.get(field.type)
        return make() if make is not None else self.chance.choice(ODD)

    def spoiled(self, data: Any, wounds: int) -> Any:
        """Replace, drop, add or swap a few parts, anywhere."""
        for _ in range(wounds):
            data = self._wounded(data)
        return data

    def _wounded(self, data: Any) -> Any:
        if not isinstance(data, dict | list) or not data or self.chance.random() < 0.08:
            return self.chance.choice(ODD)
        if isinstance(data, list):
            at = self.chance.randrange(len(data))
            return [*data[:at], self._wounded(data[at]), *data[at + 1 :]]
        key = self.chance.choice(sorted(data, key=str))
        match self.chance.randrange(8):
            case 0:
                return {name: item for name, item in data.items() if name != key}
            case 1:
                return {**data, self.chance.choice(KEYS): self.chance.choice(ODD)}
            case 2:
                return {**data, self.chance.choice(KEYS): data[key]}
        return {**data, key: self._wounded(data[key])}

    def json_patch(self) -> list[Data]:
        """Generate a JSON patch, mostly with existing paths."""
        places = ("/metadata/labels", "/metadata/labels/a", "/spec/replicas", "/spec/containers/0", "/spec/taints/-")
        odd = ("", "/", "spec", "/metadata", "/metadata/name", "/spec/containers/99", "/a~1b/~0", "/status/phase", None)
        return [
            {
                "op": self.chance.choice(("add", "remove", "replace", "move", "copy", "test", "jump")),
                "path": self.chance.choice((*places, *odd)),
                "from": self.chance.choice((*places, *odd)),
                "value": self.chance.choice(ODD),
            }
            for _ in range(self.chance.choice((1, 1, 2, 4)))
        ]


def _job() -> Data:
    return {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}}


def _claim() -> Data:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


def _workload() -> Data:
    return {**deployment(), "metadata": {}}


GOOD: Final[dict[str, Callable[[], Data]]] = {
    "pods": pod,
    "nodes": node,
    "deployments": deployment,
    "replicasets": _workload,
    "daemonsets": _workload,
    "statefulsets": _workload,
    "jobs": _job,
    "persistentvolumeclaims": _claim,
    "poddisruptionbudgets": budget,
    "customresourcedefinitions": definition,
    "bindings": lambda: {"target": {"kind": "Node", "name": "n1"}},
    "priorityclasses": lambda: {"value": 5},
    "storageclasses": lambda: {"provisioner": "example.org/disk"},
    "namespaces": lambda: {"spec": {}},
    "configmaps": lambda: {"data": {"a": "b"}},
    "leases": lambda: {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "tokenreviews": lambda: {"spec": {"token": "x"}},
    "events": lambda: {"involvedObject": {"kind": "Pod", "name": "web"}, "reason": "Because"},
    "services": lambda: {"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
}
