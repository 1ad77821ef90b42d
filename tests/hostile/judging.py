"""Invariants of every response, and of the store after any number of responses."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import msgspec

from moorage.kube.api.codec import decode
from moorage.kube.resources import Resources, ServedResource
from tests.hostile.caller import Heard
from tests.hostile.requests import Request

Data = dict[str, Any]
#: Expected messages with codes from 500: a future version, and two budgets for one pod.
KNOWN = (b"ResourceVersionTooLarge", b"more than one PodDisruptionBudget")


def problem_of(request: Request | None, received: Heard) -> str:
    """Return the problem of a response; empty if there is no problem."""
    if received.body is None:
        return ""
    if received.status >= 500 and not any(words in received.body for words in KNOWN):
        return "the server failed"
    if request is not None and request.method == "HEAD":
        return "" if not received.body else "a HEAD has a body"
    if not received.content_type.startswith("application/json"):
        return "" if received.status < 400 else "an error that is no Status"
    try:
        data = msgspec.json.decode(received.body)
    except msgspec.DecodeError as error:
        return f"no JSON: {error}"
    if received.status < 400:
        return "" if isinstance(data, dict) else "not an object"
    return _status_problem(data, received.status)


def _status_problem(data: Any, status: int) -> str:
    if not isinstance(data, dict) or data.get("kind") != "Status" or data.get("status") != "Failure":
        return "an error that is no Status"
    if data.get("code") != status or not data.get("reason") or not data.get("message"):
        return "a Status without its code, reason or message"
    return ""


class Audit:
    """Reads all objects; versions must grow, and each object must equal its entry in the list."""

    def __init__(self, url: str, token: str, resources: Resources) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._resources = resources
        self._version = 0

    def problems(self) -> list[str]:
        """Return the inconsistencies."""
        results: list[str] = []
        for resource in [*self._resources]:
            if "list" in resource.verbs:
                try:
                    results += self._of(resource)
                except urllib.error.HTTPError as error:
                    results.append(f"{error.url} cannot be read: {error.read()[:500]!r}")
        return results

    def _of(self, resource: ServedResource) -> list[str]:
        prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        complete = self._read(f"{prefix}/{resource.plural}")
        self._read(f"{prefix}/{resource.plural}", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        version = int(complete["metadata"]["resourceVersion"])
        problems = [f"versions went back from {self._version} to {version}"] if version < self._version else []
        self._version = version
        for item in complete["items"] or ():
            problems += self._object_problems(resource, prefix, item, version)
        return problems

    def _object_problems(self, resource: ServedResource, prefix: str, item: Data, version: int) -> list[str]:
        metadata = item["metadata"]
        location = f"{prefix}/namespaces/{metadata['namespace']}" if resource.namespaced else prefix
        # Some kinds allow names with any characters.
        path = f"{location}/{resource.plural}/{urllib.parse.quote(metadata['name'])}"
        if self._read(path) != item:
            return [f"{path} is not what is listed"]
        if int(metadata["resourceVersion"]) > version:
            return [f"{path} has a version from the future"]
        if resource.has_struct and not resource.is_custom:
            try:
                decode(resource.type, json.dumps(item).encode())
            except (msgspec.MsgspecError, ValueError) as error:
                return [f"{path} cannot be decoded: {error}"]
        return []

    def _read(self, path: str, accept: str = "application/json") -> Data:
        request = urllib.request.Request(self._url + path, headers={**self._headers, "Accept": accept})
        with urllib.request.urlopen(request, timeout=60) as answer:
            data: Data = json.load(answer)
        return data
