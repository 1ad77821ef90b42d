"""Valid requests with random changes in every part."""

import json
import random
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import yaml

from moorage.kube.resources import Resources, ServedResource
from tests.hostile.things import NAMES, TEXTS, Things
from tests.hostile.wire import cbor, protobuf
from tests.support.api import APPLY, JSON_PATCH, MERGE, STRATEGIC

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
CBOR: Final = "application/cbor"
TYPES: Final = (
    JSON,
    YAML,
    PROTOBUF,
    CBOR,
    MERGE,
    STRATEGIC,
    JSON_PATCH,
    APPLY,
    "application/apply-patch+cbor",
    "x",
    "",
)
ACCEPTS: Final = (
    *("", JSON, "*/*", PROTOBUF, CBOR, "application/json;as=Table;v=v1;g=meta.k8s.io", ";;;,,=", "text/html"),
    *("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=Boat;v=v9;g=x", "a" * 5000),
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "labelSelector": ("app=web", "a in (b,c)", "!a", "a in (b", "=,=", "a=b=c", "," * 50, "x" * 2000, "a notin ()"),
    "fieldSelector": ("metadata.name=web", "spec.nodeName!=n1", "status.phase=", "spec.none=1", "a\\", "=="),
    "limit": ("1", "2", "0", "-1", "500", "many", "9" * 30),
    "continue": ("", "!!", "eyJ9", "eyJsaXN0IjoxLCJzdGFydCI6MSwicmVzb3VyY2UiOiJwb2RzIn0=", "é"),
    "watch": ("true", "1", "false", "maybe"),
    "resourceVersion": ("0", "1", "5", "999999999", "-1", "new", "9" * 30),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "Never"),
    "sendInitialEvents": ("true", "false", "x"),
    "allowWatchBookmarks": ("true", "perhaps"),
    "timeoutSeconds": ("1", "0", "-1", "x", "99999999999"),
    "dryRun": ("All", "Some", ""),
    "fieldManager": ("me", "", "x" * 200, "\n"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "Odd"),
    "force": ("true", "false", "x"),
    "gracePeriodSeconds": ("0", "5", "-1", "x", "9" * 30),
    "propagationPolicy": ("Orphan", "Foreground", "Background", "Later"),
    "orphanDependents": ("true", "x"),
    "includeObject": ("None", "Object", "Metadata", "All"),
    "pretty": ("true", "x"),
}
SUBRESOURCES: Final = ("status", "scale", "binding", "eviction", "finalize", "log", "exec", "resize", "mast", "..")
DOCUMENTS: Final = (
    *(
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        "/healthz",
        "/readyz/ping",
        "/metrics",
    ),
    *(
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/apps/v1",
        "/openapi/v3/apis/x/y",
        "/openapi/v9",
        "//",
        "/api//v1",
    ),
)


class Request(NamedTuple):
    """One request, before it becomes bytes."""

    method: str
    target: str
    content_type: str = ""
    accept: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Requests:
    """Generates requests for all served resources."""

    def __init__(self, chance: random.Random, resources: Resources) -> None:
        self._chance = chance
        self._things = Things(chance)
        self._resources = resources

    def draw(self) -> Request:
        """Generate the next request."""
        chance = self._chance
        if chance.random() < 0.04:
            return Request("GET", chance.choice(DOCUMENTS), accept=chance.choice(ACCEPTS))
        resource = chance.choice([*self._resources])
        if chance.random() < 0.35:
            resource = self._resources.find("", "v1", chance.choice(("pods", "nodes"))) or resource
        method = (
            chance.choice(METHODS) if chance.random() < 0.04 else chance.choices(METHODS[:5], (15, 40, 15, 24, 6))[0]
        )
        name, part = self._place(method, resource)
        kind, body = self._body(method, resource, part)
        target = self._path(resource, name, part) + self._query()
        accept = chance.choice(ACCEPTS) if chance.random() < 0.2 else JSON
        return Request(method, target, kind, accept, body, self._headers())

    def _place(self, method: str, resource: ServedResource) -> tuple[str, str]:
        """Choose an object and a subresource, mostly valid for the method."""
        chance = self._chance
        names_one = method in ("PUT", "PATCH") or (method in ("GET", "DELETE") and chance.random() < 0.6)
        part = ""
        if resource.subresources and chance.random() < 0.3:
            part = chance.choice(resource.subresources)
        if chance.random() < 0.04:
            part = chance.choice(SUBRESOURCES)
        if part in ("binding", "eviction") or chance.random() < 0.04:
            names_one = True
        return (chance.choice(NAMES) if names_one or part else ""), part

    def _path(self, resource: ServedResource, name: str, part: str) -> str:
        prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        parts = [prefix]
        if resource.namespaced and self._chance.random() < 0.95:
            parts.append(f"namespaces/{self._chance.choice(('default',) * 9 + ('none',))}")
        parts += [text for text in (resource.plural, name, part) if text]
        path = "/".join(parts)
        if self._chance.random() < 0.05:
            pieces = path.split("/")
            pieces[self._chance.randrange(len(pieces))] = quote(self._chance.choice(("", *TEXTS)), safe="")
            path = "/".join(pieces)
        return path or "/"

    def _query(self) -> str:
        if self._chance.random() < 0.65:
            return ""
        selected = self._chance.sample(sorted(QUERIES), self._chance.choice((1, 1, 2, 3)))
        query = urlencode([(name, self._chance.choice(QUERIES[name])) for name in selected])
        return f"?{query}" + self._chance.choice(("", "", "", "&", "&=", "&%zz=%", "&a;b"))

    def _headers(self) -> tuple[tuple[str, str], ...]:
        if self._chance.random() < 0.9:
            return ()
        odd = (
            ("User-Agent", "é/1"),
            ("X-Rubbish", "x" * 2000),
            ("Impersonate-User", "root"),
            ("Content-Encoding", "gzip"),
            ("Accept-Encoding", "gzip, br"),
            ("Expect", "100-continue"),
            ("Cookie", ";" * 100),
            ("If-None-Match", '"x"'),
            ("Range", "bytes=0-1"),
            ("Authorization", "Bearer wrong"),
        )
        return tuple(self._chance.sample(odd, self._chance.choice((1, 2, 5))))

    def _body(self, method: str, resource: ServedResource, part: str) -> tuple[str, bytes]:
        chance = self._chance
        if method in ("GET", "HEAD", "DELETE") and chance.random() < 0.8:
            return "", b""
        if method == "DELETE":
            data: Any = {"kind": "DeleteOptions", "gracePeriodSeconds": 1, "preconditions": {"uid": "u"}}
        else:
            data = self._object(resource, part)
        kind = chance.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY)) if method == "PATCH" else self._plain_type()
        if kind == JSON_PATCH:
            data = self._things.json_patch()
        data = self._things.spoiled(data, chance.choice((0, 0, 0, 0, 1, 1, 2, 5)))
        body = self._written(kind, data)
        if chance.random() < 0.05:
            kind = chance.choice(TYPES)
        return kind, self._damaged(body) if chance.random() < 0.08 else body

    def _plain_type(self) -> str:
        return self._chance.choices((JSON, YAML, PROTOBUF, CBOR), (80, 8, 10, 2))[0]

    def _object(self, resource: ServedResource, part: str) -> Any:
        match part:
            case "binding":
                return {"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": "n1"}}
            case "eviction":
                return {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "web"}}
            case "scale":
                return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {"replicas": 3}}
        return self._things.thing(resource)

    def _written(self, kind: str, data: Any) -> bytes:
        if kind == PROTOBUF:
            return protobuf(data)
        if kind == CBOR:
            return cbor(data)
        if kind in (YAML, APPLY) and self._chance.random() < 0.5:
            return yaml.safe_dump(data, allow_unicode=True).encode(errors="replace")
        return json.dumps(data).encode()

    def _damaged(self, body: bytes) -> bytes:
        chance = self._chance
        at = chance.randrange(len(body) + 1)
        match chance.randrange(6):
            case 0:
                return body[:at]
            case 1:
                return body[:at] + chance.randbytes(chance.randrange(1, 5)) + body[at + chance.randrange(4) :]
            case 2:
                return body * 2
            case 3:
                return b"[" * 3000 + body
            case 4:
                return b'{"a":' * 300 + b"1" + b"}" * 300
        return chance.randbytes(chance.randrange(200))
