"""One request for each class of input that once stopped a server, with the permitted responses and the deadline.

``python -m tests.hostile`` sends them over HTTP before its campaign; the unit tests use no network.
"""

import http.client
import itertools
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tests.support.api import APPLY, DEPLOYMENTS, JSON_PATCH, MERGE, PODS, budget, deployment, pod

JSON: Final = "application/json"
YAML: Final = "application/yaml"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
DIGITS: Final = "9" * 5000
MAX_SECONDS: Final = 5.0
"""Far longer than a rejection takes, and far shorter than each request once took."""


class Hostile(NamedTuple):
    """A request, the permitted statuses, and words of the response."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON
    statuses: tuple[int, ...] = (400, 422)
    words: str = ""


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _pod(requests: str) -> bytes:
    containers = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "AMOUNT"}}}]
    return _json(pod("hostile", containers=containers)).replace(b'"AMOUNT"', requests.encode())


def _rolling(**rolling: Any) -> bytes:
    obj = deployment("hostile")
    obj["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return _json(obj)


def _budget(least: str) -> bytes:
    obj = budget("hostile")
    obj["spec"]["minAvailable"] = least
    return _json(obj)


def _doubling(levels: int) -> bytes:
    first = {"op": "add", "path": "/metadata/annotations", "value": {"a0": "x" * 100}}
    copies = [
        {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/a{level + 1}"}
        for level in range(levels)
    ]
    return _json([first, *copies])


def _aliases(levels: int) -> bytes:
    names = [f"a{level}" for level in range(levels)]
    lines = [f"{names[0]}: &{names[0]} [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in itertools.pairwise(names)]
    return "\n".join(lines).encode()


def _merges(levels: int) -> bytes:
    names = [f"m{level}" for level in range(levels)]
    lines = [f"{names[0]}: &{names[0]} {{k: v}}"]
    lines += [
        f"{b}: &{b} {{<<: *{a}, {', '.join(f'{b}{n}: *{a}' for n in range(9))}}}" for a, b in itertools.pairwise(names)
    ]
    return "\n".join(lines).encode()


CLASSES: Final[dict[str, Hostile]] = {
    "a quantity with 5,000 digits": Hostile("POST", PODS, _pod(f'"{DIGITS}"')),
    "a quantity with 5,000 decimals": Hostile("POST", PODS, _pod(f'"0.{DIGITS}"')),
    "an exponent with 5,000 digits": Hostile("POST", PODS, _pod(f'"1e{DIGITS}"')),
    "a number with 5,000 digits as quantity": Hostile("POST", PODS, _pod(DIGITS)),
    "a number with 5,000 digits": Hostile(
        "PATCH", f"{PODS}/web", b'{"spec": {"priority": %b}}' % DIGITS.encode(), MERGE
    ),
    "a number with 300 digits": Hostile("POST", PODS, b'{"spec": {"priority": %b}}' % DIGITS[:300].encode()),
    "a number outside of its type": Hostile("POST", PODS, _json(pod("hostile", priority=2**40)), words="of type int32"),
    "a number with 5,000 digits in YAML": Hostile("POST", PODS, f"spec: {{priority: {DIGITS}}}".encode(), YAML),
    "a percentage above the limit": Hostile("POST", BUDGETS, _budget(f"{DIGITS}%"), words="greater than 100%"),
    "an invalid percentage": Hostile("POST", BUDGETS, _budget("x%"), words="a valid percent string must be"),
    "an invalid surge": Hostile("POST", DEPLOYMENTS, _rolling(maxSurge="x%"), words="a valid percent string"),
    "a number as groups": Hostile("POST", REVIEWS, _json({"spec": {"groups": 5}}), words="cannot unmarshal"),
    "a text as groups": Hostile("POST", REVIEWS, _json({"spec": {"groups": "system:masters"}}), statuses=(400,)),
    "an object as user": Hostile("POST", REVIEWS, _json({"spec": {"user": {}}}), statuses=(400,)),
    "endless brackets": Hostile("POST", PODS, b"[" * 100_000),
    "endless braces": Hostile("POST", PODS, b'{"a":' * 100_000),
    "endless brackets in YAML": Hostile("POST", PODS, b"- [" + b"[" * 100_000, YAML, words="max depth"),
    "endless indentation": Hostile("POST", PODS, b"\n".join(b" " * n + b"a:" for n in range(1500)), YAML),
    "aliases of aliases": Hostile("POST", PODS, _aliases(12), YAML, words="excessive aliasing"),
    "aliases of aliases in an apply patch": Hostile("PATCH", f"{PODS}/web?fieldManager=a", _aliases(12), APPLY),
    "merges of merges": Hostile("POST", PODS, _merges(12), YAML, words="excessive aliasing"),
    "an alias of itself": Hostile("POST", PODS, b"a: &a [*a]", YAML, words="contains itself"),
    "an invalid time": Hostile("POST", PODS, b"spec: {priority: !!timestamp x}", YAML),
    "an invalid integer": Hostile("POST", PODS, b"spec: {priority: !!int x}", YAML),
    "copies of copies": Hostile("PATCH", f"{PODS}/web", _doubling(40), JSON_PATCH, (422,), "accumulated size"),
}


def find_problems(url: str, token: str) -> Iterator[str]:
    """Send all requests to a server and return requests that were not rejected correctly."""
    for name, request in CLASSES.items():
        if problem := problem_of(url, token, request):
            yield f"{name}: {problem}"


def problem_of(url: str, token: str, request: Hostile, seconds: float = 60.0) -> str:
    """Send a request and return the problem of the response; empty if it is rejected correctly."""
    location, began = urlsplit(url), time.perf_counter()
    connection: http.client.HTTPConnection
    if location.scheme == "https":
        anyone = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(
            location.hostname or "", location.port, timeout=seconds, context=anyone
        )
    else:
        connection = http.client.HTTPConnection(location.hostname or "", location.port, timeout=seconds)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": request.content_type}
        connection.request(request.method, request.path, request.body, headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()
    took = time.perf_counter() - began
    if answer.status not in request.statuses or request.words.encode() not in body:
        return f"{answer.status} {body[:300]!r}"
    return f"took {took:.1f} s" if took > MAX_SECONDS else ""
