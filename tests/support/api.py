"""A client of the embedded API without a network, for tests."""

import json
from typing import Any

import msgspec

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import JSON, ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.apiserver.users import Tokens
from moorage.common.clock import VirtualClock
from moorage.kube.features import FeatureGates

Data = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiHarness:
    """Sends requests to an API in virtual time and decodes the responses."""

    def __init__(
        self,
        *,
        history: int = 10_000,
        store: Store | None = None,
        gates: str = "",
        features: FeatureGates | None = None,
    ) -> None:
        self.clock = VirtualClock()
        features = features or FeatureGates.parse(gates)
        stored = store or Store(history=history)
        self.api = Api(self.clock, stored, features=features, tokens=Tokens("good"))

    def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON, accept: str = ""
    ) -> ApiResponse:
        path, _, query = path.partition("?")
        pairs = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        response = self.api.answer(ApiRequest(method, path, pairs, content, content_type, accept, "tester/1"))
        assert isinstance(response, ApiResponse)
        return response

    def request(self, method: str, path: str, body: Any = None, *, want: int = 200, **how: str) -> Data:
        response = self.send(method, path, body, **how)
        data: Data = msgspec.json.decode(response.body)
        assert response.status == want, data
        return data

    def create(self, path: str, body: Data) -> Data:
        return self.request("POST", path, body, want=201)

    def get(self, path: str) -> Data:
        return self.request("GET", path)

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(path)["items"]]

    def watch(self, path: str, *, accept: str = "") -> "WatchReader":
        path, _, query = path.partition("?")
        pairs = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        response = self.api.answer(ApiRequest("GET", path, {"watch": "true", **pairs}, accept=accept))
        assert isinstance(response, Watch), response
        return WatchReader(response)


class WatchReader:
    """Reads a watch as (event, name) pairs."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def first(self) -> list[Data]:
        return _events(b"".join(self.watch.begin()))

    def next(self) -> list[Data]:
        return _events(self.watch.take())

    def events(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in [*self.first(), *self.next()]]


def _events(lines: bytes) -> list[Data]:
    return [msgspec.json.decode(line) for line in lines.splitlines()]


def pod(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> Data:
    containers = [{"name": "main", "image": "web:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }


def node(name: str = "n1") -> Data:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}


def deployment(name: str = "shop", image: str = "shop:1") -> Data:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def budget(name: str = "keep", *, allowed: int = 0) -> Data:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    status = {
        "disruptionsAllowed": allowed,
        "desiredHealthy": 1,
        "currentHealthy": 1 + allowed,
        "observedGeneration": 1,
    }
    metadata = {"name": name}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def definition() -> Data:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["most"],
                "properties": {"most": {"type": "integer", "minimum": 1}, "unit": {"type": "string", "default": "gpu"}},
            }
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Most", "type": "integer", "jsonPath": ".spec.most"}],
    }
    names = {"plural": "quotas", "kind": "Quota", "singular": "quota"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": "quotas.example.org"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }
