"""The embedded and the real API server accept the same updates, and reject others with the same messages."""

import asyncio
import copy
import re
from collections.abc import Iterator
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from moorage.cluster.apiserver.server import ApiServer
from moorage.kube.api.kinds import Kind
from tests.support.api import Data
from tests.support.control_plane import ADMIN, control_plane
from tests.support.generated_objects import objects, served_kinds

Response = tuple[int, Data]
SKIPPED: Final = (
    *("Namespace", "CustomResourceDefinition", "APIService", "ResourceQuota", "LimitRange"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
)
"""Kinds of objects that a server changes after their creation, or that change new objects of other kinds."""
ABOUT_UPDATES: Final = re.compile("immutable|may not (be )?change|pod updates")
KNOWN: Final = re.compile(
    r"^Job v1: sample: change 0|spec.dataSource|schedulingGroup|evictionResponders|ephemeralContainers"
    r"|^PersistentVolume v1: rich: removed .*\.key$"
)
"""Differences: completions of an indexed job, data sources of unknown kinds, disabled features, terms without a key."""
MAX_OTHER: Final = 42
"""The number of updates that only one of the servers accepts; only lower it."""
RICH: Final[dict[str, Data]] = {
    "ConfigMap": {"data": {"a": "b"}, "immutable": True},
    "Secret": {"type": "Opaque", "data": {"a": "Yg=="}, "immutable": True},
    "StorageClass": {"provisioner": "a.example.org", "parameters": {"a": "b"}, "reclaimPolicy": "Retain"},
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d.example.org", "volumeHandle": "h"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
        }
    },
    "Service": {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "10.96.0.77"}},
}
"""Objects with fields that are changed in addition to those of the minimal objects."""
KINDS: Final = {f"{kind.name} {kind.version}": kind for kind in served_kinds() if kind.name not in SKIPPED}


def bases(kind: Kind) -> Iterator[tuple[str, Data]]:
    """Yield the objects to update."""
    _, minimal = next(objects(kind))
    if minimal["metadata"]["name"] == "sample":
        minimal["metadata"]["name"] = f"sample-{kind.version}"
    yield "sample", minimal
    if kind.name in RICH:
        header = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "rich"}}
        yield "rich", {**header, **copy.deepcopy(RICH[kind.name])}


def variants(kind: Kind, base: Data) -> Iterator[tuple[str, Data]]:
    """Yield the generated objects of a kind, and the base with each value changed or removed once."""
    if base["metadata"]["name"] != "rich":
        yield from objects(kind)
    for path, value in leaves(
        {key: item for key, item in base.items() if key not in ("apiVersion", "kind", "metadata")}
    ):
        changed = copy.deepcopy(base)
        inner: Any = changed
        for key in path[:-1]:
            inner = inner[key]
        other = {bool: not value, int: value + 1 if isinstance(value, int) else 0, str: f"{value}x"}[type(value)]
        inner[path[-1]] = "10.96.0.78" if value == "10.96.0.77" else other
        yield f"changed {'.'.join(map(str, path))}", changed
        removed = copy.deepcopy(base)
        inner = removed
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        yield f"removed {'.'.join(map(str, path))}", removed


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in entries:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        elif isinstance(value, bool | int | str):
            yield (*path, key), value


@pytest.fixture(scope="module")
def responses() -> tuple[dict[str, Response], dict[str, Response]]:
    """The responses of the real and the embedded server, by update."""
    with control_plane() as plane:
        real = asyncio.run(update_all(plane.server, plane.tokens[ADMIN]))

    async def embedded() -> dict[str, Response]:
        async with ApiServer() as server:
            return await update_all(server.url, server.token)

    return real, asyncio.run(embedded())


async def update_all(server: str, token: str) -> dict[str, Response]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    results: dict[str, Response] = {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def send(method: str, url: str, data: Data) -> Response:
            async with session.request(method, url, data=msgspec.json.encode(data)) as answer:
                return answer.status, msgspec.json.decode(await answer.read())

        async def work(key: str, kind: Kind) -> None:
            path = f"{server}{kind.path(namespace='default' if kind.namespaced else '')}"
            for label, base in bases(kind):
                status, created = await send("POST", path, base)
                assert status == 201, f"{key} {label}: {created.get('message')}"
                metadata = {
                    "name": created["metadata"]["name"],
                    "resourceVersion": created["metadata"]["resourceVersion"],
                }
                for name, data in variants(kind, base):
                    content = {**data, "metadata": {**data.get("metadata", {}), **metadata}}
                    url = f"{path}/{metadata['name']}?dryRun=All&fieldValidation=Strict"
                    results[f"{key}: {label}: {name}"] = await send("PUT", url, content)

        await asyncio.gather(*(work(key, kind) for key, kind in KINDS.items()))
    return results


def immutable(response: Response) -> list[tuple[str, str]]:
    """Return the causes of a rejection that concern immutable fields."""
    causes = (response[1].get("details") or {}).get("causes") or ()
    all_causes = sorted((cause.get("field", ""), shorten(cause.get("message", ""))) for cause in causes)
    return [cause for cause in all_causes if ABOUT_UPDATES.search(cause[1])]


def shorten(message: str) -> str:
    """Return a message without the value, which Go formats in its own way."""
    return re.sub(r"^(Invalid value|Forbidden): (.*): (?=[a-z])", r"\1: ", message.partition("\n")[0], flags=re.DOTALL)


@pytest.mark.parametrize("kind", KINDS)
def test_immutable_fields_are_equal(kind: str, responses: tuple[dict[str, Response], dict[str, Response]]) -> None:
    real, actual = ({name: immutable(item) for name, item in side.items()} for side in responses)
    updates = [name for name in real if name.startswith(f"{kind}: ") and not KNOWN.search(name)]
    assert {name: real[name] for name in updates} == {name: actual[name] for name in updates}


def test_most_updates_are_accepted_by_both_or_none(
    responses: tuple[dict[str, Response], dict[str, Response]],
) -> None:
    real, actual = responses
    other = [name for name, (status, _) in real.items() if (status < 400) != (actual[name][0] < 400)]
    assert len(other) <= MAX_OTHER, other
