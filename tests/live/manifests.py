"""`python -m tests.live.manifests PATH...`: create the objects in YAML files on both API servers; compare the results.

Definitions and namespaces are created; all other objects are sent as strict dry runs. Kinds that kube-apiserver does
not serve are skipped. Files with templates (``{{-``) and objects that are read twice are ignored. The last line has the
share of objects that both servers reject, or return with the same content.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import yaml

from moorage.cluster.apiserver.server import ApiServer
from tests.live.test_same_objects import Response, comparable, differences
from tests.support.api import Data
from tests.support.control_plane import ADMIN, control_plane

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT: Final = "?dryRun=All&fieldValidation=Strict"
UNKNOWN: Final = (404, {"message": "no such kind"})
AT_ONCE: Final = 6


def read_objects(paths: list[str]) -> dict[str, Data]:
    """Return the objects in files and directories, by file and number."""
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.y*ml")) if path.is_dir() else [path])]
    objects: dict[str, Data] = {}
    seen: set[bytes] = set()
    for file in files:
        try:
            text = file.read_text()
            documents = [] if "{{-" in text else list(yaml.load_all(text, yaml.CSafeLoader))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError):
            continue
        for number, data in enumerate(item for document in documents for item in _items(document)):
            encoded = msgspec.json.encode(data)
            if encoded not in seen:
                seen.add(encoded)
                # Dates become texts, as in JSON.
                objects[f"{file}#{number}"] = msgspec.json.decode(encoded)
    return objects


def _items(document: Any) -> Iterator[Data]:
    if not isinstance(document, dict):
        return
    if document.get("kind") == "List":
        for item in document.get("items") or ():
            yield from _items(item)
    metadata = document.get("metadata")
    has_name = isinstance(metadata, dict) and bool(metadata.get("name") or metadata.get("generateName"))
    if has_name and isinstance(document.get("apiVersion"), str) and isinstance(document.get("kind"), str):
        yield document


async def create_all(server: str, token: str, objects: dict[str, Data]) -> dict[str, Response]:
    """Create all objects; return the responses."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    results: dict[str, Response] = {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def send(method: str, path: str, data: Data | None = None) -> Response:
            body = None if data is None else msgspec.json.encode(data)
            async with session.request(method, server + path, data=body) as answer:
                try:
                    return answer.status, msgspec.json.decode(await answer.read())
                except msgspec.DecodeError:
                    return answer.status, {}

        for name in {data["metadata"].get("namespace") or "default" for data in objects.values()}:
            await send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name, data in objects.items():
            if data["kind"] == "CustomResourceDefinition":
                status, answer = await send("POST", DEFINITIONS + STRICT, data)
                if status != 409:  # several versions of a project define the same resource
                    results[name] = status, answer
                    await send("POST", DEFINITIONS, data)
        while not all(map(_is_established, (await send("GET", DEFINITIONS))[1]["items"])):
            await asyncio.sleep(1)
        await asyncio.sleep(3)
        kinds = {}
        for version in {data["apiVersion"] for data in objects.values()}:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            _, answer = await send("GET", root)
            for item in answer.get("resources") or ():
                if "/" not in item["name"]:
                    kinds[version, item["kind"]] = f"{root}/namespaces/%s/" if item["namespaced"] else f"{root}/", item
        queue = [item for item in objects.items() if item[1]["kind"] != "CustomResourceDefinition"]

        async def work() -> None:
            while queue:
                name, data = queue.pop()
                root, item = kinds.get((data["apiVersion"], data["kind"]), ("", None))
                namespace = data["metadata"].get("namespace") or "default"
                path = f"{root.replace('%s', namespace)}{item['name']}{STRICT}" if item is not None else ""
                results[name] = await send("POST", path, data) if path else UNKNOWN

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return results


def _is_established(definition: Data) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((item["type"], item["status"]) == ("Established", "True") for item in conditions)


def normalized(response: Response, data: Data) -> Any:
    """Return the comparable content of a response, without random names, ports and users."""
    status, answer = response
    if status < 400:
        if not data["metadata"].get("name"):
            encoded = msgspec.json.encode(answer).replace(answer["metadata"]["name"].encode(), b"GENERATED")
            answer = msgspec.json.decode(encoded)
        spec = answer.get("spec") or {}
        if data["kind"] == "CertificateSigningRequest":
            spec |= {"username": "", "uid": ""}
        if "healthCheckNodePort" in spec:
            spec["healthCheckNodePort"] = 0
    return comparable((status, answer))


def main(paths: list[str]) -> int:
    """Compare the objects in the paths; print the differences."""
    objects = read_objects(paths)

    async def embedded() -> dict[str, Response]:
        async with ApiServer() as server:
            return await create_all(server.url, server.token, objects)

    with control_plane("--allow-privileged") as plane:
        real = asyncio.run(create_all(plane.server, plane.tokens[ADMIN], objects))
    actual = asyncio.run(embedded())
    compared = [name for name, response in real.items() if response != UNKNOWN]
    alike = 0
    for name in compared:
        data = objects[name]
        expected, answered = (normalized(side.get(name, UNKNOWN), data) for side in (real, actual))
        lines = differences(expected, answered, data["kind"])
        alike += not lines
        for line in lines[:3]:
            sys.stdout.write(f"{name}: {line[:300]}\n")
    sys.stdout.write(f"{alike} of {len(compared)} objects are alike ({100 * alike / max(1, len(compared)):.2f}%)\n")
    return int(alike < len(compared))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
