"""The embedded and the real API server accept the same objects and return them with the same defaults."""

import asyncio
import re
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from moorage.cluster.apiserver.server import ApiServer
from tests.support.api import Data
from tests.support.control_plane import ADMIN, control_plane
from tests.support.generated_objects import objects, served_kinds

Response = tuple[int, Data]
KINDS: Final = {f"{kind.name} {kind.version}": kind for kind in served_kinds()}
REFUSED: Final = "refused"
ABSENT: Final = "absent"
MAX_ACCEPTED_INVALID: Final = 5
"""The number of generated invalid objects that the embedded server still accepts; only lower it."""
OTHER_DEFAULTS: Final = re.compile(
    r"evictionResponders|schedulingGroup|schedulingGates|deprecatedTopology|preferredHolder|dataSource"
    r"|^Lease v1: with spec.strategy|^CSINode v1: without"
)
"""Known differences: fields of disabled features, which the embedded server keeps, and other defaults."""
GENERATED: Final = ("uid", "creationTimestamp", "managedFields", "resourceVersion")


@pytest.fixture(scope="module")
def responses() -> tuple[dict[str, Response], dict[str, Response]]:
    """The responses of the real and the embedded server, by object."""
    with control_plane() as plane:
        real = asyncio.run(create_all(plane.server, plane.tokens[ADMIN]))

    async def embedded() -> dict[str, Response]:
        async with ApiServer() as server:
            return await create_all(server.url, server.token)

    return real, asyncio.run(embedded())


async def create_all(server: str, token: str) -> dict[str, Response]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    requests = {
        f"{key}: {name}": (kind.path(namespace="default" if kind.namespaced else ""), data)
        for key, kind in KINDS.items()
        for name, data in objects(kind)
    }
    results: dict[str, Response] = {}
    queue = list(requests.items())
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def work() -> None:
            while queue:
                name, (path, data) = queue.pop()
                url = f"{server}{path}?dryRun=All&fieldValidation=Strict"
                async with session.post(url, data=msgspec.json.encode(data)) as answer:
                    results[name] = answer.status, msgspec.json.decode(await answer.read())

        await asyncio.gather(*(work() for _ in range(8)))
    return results


def comparable(response: Response) -> Any:
    """Return the object without generated values and without the results of plugins that only one server runs."""
    status, data = response
    if status >= 400:
        return REFUSED
    uid = data["metadata"]["uid"]
    data = msgspec.json.decode(msgspec.json.encode(data).replace(uid.encode(), b"UID"))
    for name in GENERATED:
        data["metadata"].pop(name, None)
    match data["kind"]:
        case "CustomResourceDefinition":
            # The real server accepts the names after it has stored the object.
            data.pop("status")
        case "PersistentVolume":
            data["status"].pop("lastPhaseTransitionTime", None)
        case "Pod":
            for name in ("serviceAccount", "serviceAccountName"):
                if data["spec"].get(name) == "default":
                    del data["spec"][name]
        case "Service":
            spec = data["spec"]
            spec |= {name: "allocated" for name in ("clusterIP", "clusterIPs") if spec.get(name, "None") != "None"}
            for port in spec.get("ports", ()):
                port["nodePort"] = bool(port.get("nodePort"))
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_accepted_objects_are_equal(kind: str, responses: tuple[dict[str, Response], dict[str, Response]]) -> None:
    real, actual = responses
    accepted = {name: comparable(response) for name, response in real.items() if name.startswith(f"{kind}: ")}
    expected = {name: data for name, data in accepted.items() if data != REFUSED and not OTHER_DEFAULTS.search(name)}
    assert expected, "the minimal object is valid"
    assert [line for name, data in expected.items() for line in differences(data, comparable(actual[name]), name)] == []


def differences(real: Any, actual: Any, path: str) -> list[str]:
    """List the fields that are not equal."""
    if isinstance(real, dict) and isinstance(actual, dict):
        keys = sorted({*real, *actual})
        return [
            line
            for key in keys
            for line in differences(real.get(key, "absent"), actual.get(key, "absent"), f"{path}.{key}")
        ]
    return [] if real == actual else [f"{path}: real {real!r}, ours {actual!r}"]


def test_most_invalid_objects_are_rejected(responses: tuple[dict[str, Response], dict[str, Response]]) -> None:
    real, actual = responses
    invalid = [name for name, (status, _) in real.items() if status >= 400]
    accepted = [name for name in invalid if actual[name][0] < 400]
    assert len(accepted) <= MAX_ACCEPTED_INVALID, accepted
