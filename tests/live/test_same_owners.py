"""Random writes by several managers leave the same objects and owners on the embedded and the real API server."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from moorage.cluster.apiserver.server import ApiServer
from tests.support.api import APPLY, MERGE, Data
from tests.support.control_plane import ADMIN, control_plane

SEEDS: Final = 40
STEPS: Final = 12
MANAGERS: Final = ("a", "b", "c")
GROUP: Final = "owners.example.org"
DEFINITION: Final[Data] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"boats.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "text": {"type": "string", "default": "none"},
                                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "list": {"type": "array", "items": {"type": "string"}},
                                    "set": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "items": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "size": {"type": "integer"},
                                                "tag": {"type": "string"},
                                            },
                                        },
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
Response = tuple[int, Data]


class Writes:
    """Random writes to one object; equal for equal seeds."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        makers: dict[str, tuple[str, Callable[[], Data]]] = {
            "configmap": ("/api/v1/namespaces/default/configmaps", self.config_map),
            "deployment": ("/apis/apps/v1/namespaces/default/deployments", self.deployment),
            "service": ("/api/v1/namespaces/default/services", self.service),
            "boat": (f"/apis/{GROUP}/v1/namespaces/default/boats", self.boat),
        }
        kind = list(makers)[seed % len(makers)]
        self.path, self.make = makers[kind]
        self.has_status = kind in ("deployment", "boat")
        self.name = f"{kind}-{seed}"

    def some(self, **fields: Callable[[], Any]) -> Data:
        """Return an object with some of the fields."""
        return {name: make() for name, make in fields.items() if self.chance.random() < 0.6}

    def words(self) -> Data:
        return {key: self.chance.choice("xyz") for key in self.chance.sample("klmn", self.chance.randrange(0, 4))}

    def letters(self) -> list[str]:
        return self.chance.sample("pqrs", self.chance.randrange(0, 4))

    def metadata(self) -> Data:
        fields = self.some(labels=self.words, annotations=self.words)
        if self.chance.random() < 0.3:
            fields["finalizers"] = [f"example.org/{letter}" for letter in self.letters()]
        return {"name": self.name, **fields}

    def config_map(self) -> Data:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(), **self.some(data=self.words)}

    def container(self, name: str) -> Data:
        def variables() -> list[Data]:
            return [{"name": letter, "value": self.chance.choice("xyz")} for letter in self.letters()]

        def ports() -> list[Data]:
            numbers = self.chance.sample((80, 81, 82), self.chance.randrange(0, 3))
            return [{"containerPort": number, **self.some(protocol=lambda: "TCP")} for number in numbers]

        return {
            "name": name,
            "image": self.chance.choice(("i:1", "i:2")),
            **self.some(
                env=variables,
                ports=ports,
                command=self.letters,
                livenessProbe=lambda: {"httpGet": {"port": 80, **self.some(path=lambda: "/")}},
                resources=lambda: {"limits": self.some(cpu=lambda: "1", memory=lambda: "1Gi")},
                securityContext=lambda: {"capabilities": {"add": self.letters()}},
            ),
        }

    def deployment(self) -> Data:
        def containers() -> list[Data]:
            names = self.chance.sample(("one", "two", "three"), self.chance.randrange(1, 4))
            return [self.container(name) for name in names]

        template = {
            "metadata": {"labels": {"app": "a", **self.words()}},
            "spec": {
                "containers": containers(),
                **self.some(
                    nodeSelector=self.words,
                    tolerations=lambda: [{"key": letter, "operator": "Exists"} for letter in self.letters()],
                ),
            },
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(),
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": template,
                **self.some(
                    replicas=lambda: self.chance.randrange(4),
                    strategy=lambda: self.chance.choice(({"type": "Recreate"}, {"rollingUpdate": {"maxSurge": 1}})),
                    minReadySeconds=lambda: self.chance.randrange(3),
                ),
            },
        }

    def service(self) -> Data:
        numbers = self.chance.sample((80, 81, 82), self.chance.randrange(1, 4))
        ports = [{"name": f"p{number}", "port": number, **self.some(protocol=lambda: "TCP")} for number in numbers]
        fields = self.some(sessionAffinity=lambda: "ClientIP", externalIPs=lambda: ["10.1.1.1"])
        spec = {"ports": ports, "clusterIP": "None", "selector": {"app": "a", **self.words()}, **fields}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata(), "spec": spec}

    def boat(self) -> Data:
        def items() -> list[Data]:
            return [
                {"name": letter, **self.some(size=lambda: self.chance.randrange(3), tag=lambda: "t")}
                for letter in self.letters()
            ]

        spec = self.some(
            text=lambda: self.chance.choice("xyz"),
            map=self.words,
            whole=self.words,
            list=self.letters,
            set=self.letters,
            items=items,
            free=lambda: {"deep": self.words(), "list": self.letters()},
        )
        return {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": self.metadata(), "spec": spec}

    def status(self) -> Data:
        data = self.make()
        data["metadata"] = {"name": self.name}
        fields: dict[str, Callable[[], Any]] = {"replicas": lambda: self.chance.randrange(4)}
        if data["kind"] == "Deployment":
            fields["conditions"] = lambda: [
                {"type": letter, "status": self.chance.choice(("True", "False"))} for letter in self.letters()
            ]
        data["status"] = self.some(**fields)
        if self.chance.random() < 0.7:
            data.pop("spec", None)
        return data

    def __iter__(self) -> Iterator[tuple[str, str, str, Data]]:
        """Yield the method, path, content type and body of the writes."""
        chance = self.chance
        if chance.random() < 0.5:
            yield "POST", f"{self.path}?fieldManager={chance.choice(MANAGERS)}", "application/json", self.make()
        for _ in range(STEPS):
            manager = chance.choice(MANAGERS)
            force = "&force=true" if chance.random() < 0.4 else ""
            where = f"{self.path}/{self.name}"
            match chance.randrange(8):
                case 0:
                    yield "PUT", f"{where}?fieldManager={manager}", "application/json", self.make()
                case 1:
                    patch = self.make()
                    patch.pop("apiVersion")
                    yield "PATCH", f"{where}?fieldManager={manager}", MERGE, patch
                case 2 if self.has_status:
                    yield "PATCH", f"{where}/status?fieldManager={manager}{force}", APPLY, self.status()
                case 3 if self.has_status:
                    yield "PATCH", f"{where}/status?fieldManager={manager}", MERGE, {"status": self.status()["status"]}
                case 4:
                    patch = {"metadata": {"labels": {chance.choice("klmn"): None}}}
                    yield "PATCH", f"{where}?fieldManager={manager}", MERGE, patch
                case _:
                    yield "PATCH", f"{where}?fieldManager={manager}{force}", APPLY, self.make()


async def write_all(server: str, token: str) -> dict[str, list[Response]]:
    headers = {"Authorization": f"Bearer {token}"}
    results: dict[str, list[Response]] = {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def send(method: str, path: str, content_type: str, data: Data) -> Response:
            body, sent = msgspec.json.encode(data), {"Content-Type": content_type}
            async with session.request(method, f"{server}{path}", data=body, headers=sent) as answer:
                return answer.status, msgspec.json.decode(await answer.read())

        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, defined = await send("POST", definitions, "application/json", DEFINITION)
        assert status == 201, defined
        while True:
            async with session.get(f"{server}/apis/{GROUP}/v1/boats") as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.2)

        async def write(seed: int) -> None:
            writes = Writes(seed)
            results[writes.name] = [await send(*step) for step in writes]

        await asyncio.gather(*(write(seed) for seed in range(SEEDS)))
    return results


@pytest.fixture(scope="module")
def responses() -> tuple[dict[str, list[Response]], dict[str, list[Response]]]:
    """The responses of the real and the embedded server, by object."""
    with control_plane() as plane:
        real = asyncio.run(write_all(plane.server, plane.tokens[ADMIN]))

    async def embedded() -> dict[str, list[Response]]:
        async with ApiServer() as server:
            return await write_all(server.url, server.token)

    return real, asyncio.run(embedded())


def comparable(response: Response) -> Any:
    """Return the object and its owners without times and identities; of errors, the status and the conflicts."""
    status, data = response
    if status >= 400:
        causes = (data.get("details") or {}).get("causes") or ()
        conflicts = sorted(
            (cause["field"], cause["message"].partition(" at ")[0])
            for cause in causes
            if cause.get("reason") == "FieldManagerConflict"
        )
        return {"status": status, "conflicts": conflicts}
    metadata = data["metadata"]
    owners = {
        "/".join((entry["manager"], entry["operation"], entry.get("subresource", ""))): entry["fieldsV1"]
        for entry in metadata.pop("managedFields", ())
    }
    for name in ("uid", "creationTimestamp", "resourceVersion", "generation"):
        metadata.pop(name, None)
    for condition in (data.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return {"object": data, "owners": owners}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_objects_and_owners_are_equal(
    seed: int, responses: tuple[dict[str, list[Response]], dict[str, list[Response]]]
) -> None:
    writes = Writes(seed)
    real, actual = (side[writes.name] for side in responses)
    for number, step in enumerate(writes):
        expected, found = comparable(real[number]), comparable(actual[number])
        assert found == expected, f"step {number}: {step}\nreal {real[number]}\nours {actual[number]}"
