"""`python -m tests.live.manifests [--lifecycle] PATH...`: create the objects in YAML files on both API servers.

Definitions and namespaces are created; all other objects are sent as strict dry runs. Kinds that kube-apiserver does
not serve are skipped. Files with templates (``{{-``) and objects that are read twice are ignored. The last line has the
share of objects that both servers reject, or return with the same content.

With ``--lifecycle``, each object is also created, updated, patched, applied by several managers, shown in a table and
deleted. The last line has the share of equal responses: status, content, owners, and message.
"""

import argparse
import asyncio
import copy
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import yaml

from moorage.cluster.apiserver.server import ApiServer
from tests.live.test_same_objects import Response, comparable, differences
from tests.support.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Data
from tests.support.control_plane import ADMIN, control_plane

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT: Final = "?dryRun=All&fieldValidation=Strict"
JSON: Final = "application/json"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
PATCH_REASON: Final = re.compile(r"^(the server rejected our request due to an error in our request): .*", re.DOTALL)
Step = tuple[str, str, str, Data | list[Data] | None]
"""A method, the end of the URL, the content type and the body."""
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


def lifecycle(data: Data) -> Iterator[Step]:
    """Yield the requests of an object that exists, up to its deletion."""
    name = data["metadata"]["name"]
    where = f"/{name}?fieldManager="
    labelled = copy.deepcopy(data)
    labelled["metadata"]["labels"] = {**(labelled["metadata"].get("labels") or {}), "tier": "a"}
    yield "PUT", f"{where}creator&fieldValidation=Strict", JSON, labelled
    yield "PATCH", f"{where}merger", MERGE, {"metadata": {"annotations": {"note": "1"}, "labels": {"tier": None}}}
    spec = data.get("spec") if isinstance(data.get("spec"), dict) else None
    if spec:
        yield "PATCH", f"{where}merger", MERGE, {"spec": {min(spec): None}}
        yield "PATCH", f"{where}planner", STRATEGIC, {"spec": spec}
    yield "PATCH", f"{where}planner&fieldValidation=Strict", STRATEGIC, {"metadata": {"annotations": {"note": "2"}}}
    operations = [{"op": "test", "path": "/metadata/name", "value": name}]
    yield "PATCH", f"{where}json", JSON_PATCH, [*operations, {"op": "remove", "path": "/metadata/annotations/note"}]
    yield "PATCH", f"{where}json", JSON_PATCH, [*operations, {"op": "replace", "path": "/spec/nothing/x", "value": 1}]
    yield "PATCH", f"{where}one", APPLY, data
    yield "PATCH", f"{where}two", APPLY, labelled
    other = copy.deepcopy(labelled)
    other["metadata"]["labels"]["tier"] = "b"
    yield "PATCH", f"{where}one", APPLY, other
    yield "PATCH", f"{where}one&force=true", APPLY, other
    header = {"apiVersion": data["apiVersion"], "kind": data["kind"], "metadata": {"name": name}}
    yield "PATCH", f"{where}two", APPLY, header
    yield "PATCH", f"{where}one&force=true", APPLY, header
    yield "PATCH", f"{where}one", MERGE, {"metadata": {"name": "another"}}
    yield "GET", f"/{name}", TABLE, None
    yield "GET", f"/{name}/status", JSON, None
    yield "GET", f"/{name}/scale", JSON, None
    # The other policies need the garbage collector, which does not run here.
    policy = {"propagationPolicy": "Background"}
    yield "DELETE", f"/{name}", JSON, {**policy, "preconditions": {"uid": "another"}}
    yield "DELETE", f"/{name}", JSON, {"propagationPolicy": "Sometimes"}
    yield "DELETE", f"/{name}", JSON, policy
    yield "PATCH", f"{where}merger", MERGE, {"metadata": {"finalizers": None}}
    yield "GET", f"/{name}", JSON, None


async def serve_kinds(
    send: Callable[..., Awaitable[Response]], objects: dict[str, Data], results: dict[str, Response]
) -> dict[tuple[str, str], tuple[str, Data]]:
    """Create namespaces and definitions; return the paths and the discovery entries of all kinds."""
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
    return kinds


async def create_all(
    server: str, token: str, objects: dict[str, Data], *, has_lifecycle: bool = False
) -> dict[str, Response]:
    """Create all objects; return the responses."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    results: dict[str, Response] = {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def send(method: str, path: str, data: Any = None, kind: str = JSON) -> Response:
            body = None if data is None else msgspec.json.encode(data)
            sent = {"Accept" if data is None else "Content-Type": kind}
            async with session.request(method, server + path, data=body, headers=sent) as answer:
                try:
                    return answer.status, msgspec.json.decode(await answer.read())
                except msgspec.DecodeError:
                    return answer.status, {}

        kinds = await serve_kinds(send, objects, results)
        numbers = {name: number for number, name in enumerate(objects)}
        queue = [item for item in objects.items() if item[1]["kind"] != "CustomResourceDefinition"]

        async def work() -> None:
            while queue:
                name, data = queue.pop()
                root, item = kinds.get((data["apiVersion"], data["kind"]), ("", None))
                namespace = data["metadata"].get("namespace") or "default"
                path = f"{root.replace('%s', namespace)}{item['name']}{STRICT}" if item is not None else ""
                results[name] = await send("POST", path, data) if path else UNKNOWN
                if has_lifecycle and results[name][0] < 300 and data["metadata"].get("name"):
                    await live(name, path.removesuffix(STRICT), data)

        async def live(name: str, collection: str, data: Data) -> None:
            unique = copy.deepcopy(data)
            # Several files may have objects of the same name.
            unique["metadata"]["name"] = f"{data['metadata']['name'][:40]}-{numbers[name]}".replace(":", "-")
            results[f"{name} create"] = await send("POST", f"{collection}?fieldManager=creator", unique)
            if results[f"{name} create"][0] < 300:
                for number, (method, end, kind, body) in enumerate(lifecycle(unique)):
                    key = f"{name} {number} {method} {kind.partition('/')[2][:20]}"
                    results[key] = await send(method, collection + end, body, kind)

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


def with_message(response: Response, data: Data) -> Any:
    """Return the comparable content of a response of a lifecycle: also owners and messages."""
    status, answer = response
    if answer.get("kind") == "Table":
        rows = [[cell if cell != answer["rows"][0]["cells"][-1] else "" for cell in answer["rows"][0]["cells"]]]
        return status, [column["name"] for column in answer["columnDefinitions"]], rows
    if answer.get("kind") == "Status":
        # The embedded server adds the reason to this message.
        answer = {**answer, "message": PATCH_REASON.sub(r"\1", answer.get("message", ""))}
        details = {key: item for key, item in (answer.get("details") or {}).items() if key != "uid"}
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}| at [0-9T:-]+Z", "", msgspec.json.encode(details).decode())
        message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}| at [0-9T:-]+Z", "", answer.get("message", ""))
        return status, answer.get("reason"), message, msgspec.json.decode(text)
    if answer.get("kind") != data["kind"]:
        return status, answer.get("kind")
    answer = copy.deepcopy(answer)
    owners = {
        "/".join((entry["manager"], entry["operation"], entry.get("subresource", ""))): entry["fieldsV1"]
        for entry in answer["metadata"].pop("managedFields", ())
    }
    generation = answer["metadata"].get("generation")
    return status, normalized((status, answer), data), owners, generation


def main() -> int:
    """Compare the objects in the paths; print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lifecycle", action="store_true", help="also change and delete the objects")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    options = parser.parse_args()
    objects = read_objects(options.paths)

    async def embedded() -> dict[str, Response]:
        async with ApiServer() as server:
            return await create_all(server.url, server.token, objects, has_lifecycle=options.lifecycle)

    with control_plane("--allow-privileged") as plane:
        real = asyncio.run(create_all(plane.server, plane.tokens[ADMIN], objects, has_lifecycle=options.lifecycle))
    actual = asyncio.run(embedded())
    compared = [name for name, response in real.items() if response != UNKNOWN]
    alike = 0
    for name in compared:
        file = name.partition(" ")[0]
        data = objects[file]
        is_created = name == file and (real[name][0] < 400 or not options.lifecycle)
        compare = normalized if is_created else with_message
        expected, answered = (compare(side.get(name, UNKNOWN), data) for side in (real, actual))
        lines = differences(as_data(expected), as_data(answered), data["kind"])
        alike += not lines
        refusals = [
            side[name][1].get("message", "") for side in (real, actual) if name in side and side[name][0] >= 400
        ]
        for line in lines[:3] + (refusals if lines else []):
            sys.stdout.write(f"{name}: {line[:600]}\n")
    what = "responses" if options.lifecycle else "objects"
    sys.stdout.write(f"{alike} of {len(compared)} {what} are alike ({100 * alike / max(1, len(compared)):.2f}%)\n")
    return int(alike < len(compared))


def as_data(value: Any) -> Any:
    """Return parts of a response as an object, so that each difference is listed."""
    return dict(enumerate(value)) if isinstance(value, tuple) else value


if __name__ == "__main__":
    sys.exit(main())
