"""The page over HTTP: static files, data as JSON, and a stream of versions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from math import isfinite
from time import monotonic, thread_time
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
import structlog

from moorage.common.errors import InputError, MoorageError
from moorage.insight.page.api_types import PodLine, WaitingPodLine
from moorage.insight.page.page_source import PageSource
from moorage.insight.page.paths import API, SAFETY, problem, serve_file
from moorage.insight.page.pending_groups import (
    describe_group,
    describe_owner,
    group_id,
    group_lines,
    list_reasons,
    pod_fields,
)
from moorage.kube.api.pod import Pod
from moorage.kube.http.messages import HttpRequest, Reply

BURST_SECONDS: Final = 0.2
REQUEST_SECONDS: Final = 0.0003
"""Seconds that each request is charged in addition, for reading it and sending the reply."""
MAX_DIGITS: Final = 16
MAX_LISTED: Final = 200
MAX_DIFFERENCES: Final = 1000
MAX_SORTED: Final = 20_000
"""Longer lists of pods keep the order of the source: the page must not delay a scheduler."""
T = TypeVar("T")

log = structlog.get_logger(__name__)


class Query:
    """The parameters of a request: a run, a time, and further parameters."""

    def __init__(self, parameters: Mapping[str, Any], runs: int) -> None:
        self.given = parameters
        self.run = self.number("run", 0)
        if self.run >= runs:
            raise InputError("run", f"{self.run} does not exist; there are {runs} runs", hint="the first run is 0")
        text = str(self.given.get("at", "inf"))
        try:
            at = float(text)
        except ValueError as error:
            raise InputError("at", f"{text[:40]!r} is not a number of seconds") from error
        self.at = at if isfinite(at) else 2.0**53

    def number(self, key: str, default: int, most: int = 2**53) -> int:
        """Read a whole number."""
        text = str(self.given.get(key, default))
        if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS) or int(text) > most:
            raise InputError(key, f"{text[:40]!r} is not a number from 0 to {most}")
        return int(text)

    def page(self, items: Sequence[T]) -> Sequence[T]:
        """Return the requested page of a list."""
        first = self.number("offset", 0)
        return items[first : first + self.number("limit", MAX_LISTED, MAX_LISTED)]


class CpuShare:
    """Delays readers, so that all of them together use at most a share of the thread.

    A newly opened page may use up to ``BURST_SECONDS`` immediately.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._lock = asyncio.Lock()
        self._credit = BURST_SECONDS
        self._counted_at = monotonic()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until CPU time is available, then charge the time of the block, which must not wait."""
        async with self._lock:
            self._count()
            if self._credit < 0:
                await asyncio.sleep(-self._credit / self._share)
                self._count()
            began = thread_time()
            try:
                yield
            finally:
                self._credit -= thread_time() - began + REQUEST_SECONDS

    def _count(self) -> None:
        now = monotonic()
        self._credit = min(BURST_SECONDS, self._credit + (now - self._counted_at) * self._share)
        self._counted_at = now


class PageService:
    """Handles requests for the page of a source."""

    def __init__(self, source: PageSource) -> None:
        self._source = source
        self._cpu = CpuShare(source.cpu_share)
        self._reading: Mapping[str, Callable[[Query], Any]] = {
            "about": lambda _query: source.about(),
            "version": lambda _query: {"version": source.version},
            "nodes": lambda query: source.layout(query.run),
            "state": lambda query: source.state(query.run, query.at),
            "decisions": lambda query: {"decisions": source.decisions(query.run, query.at, query.number("since", 0))},
            "lines": lambda query: source.lines(query.run, query.at),
            "waiting": self._waiting,
            "pods": self._pods,
            "reasons": self._reasons,
            "differences": self._differences,
        }

    async def answer(self, request: HttpRequest) -> Reply:
        """Handle one request. The caller has checked the permissions."""
        path = unquote(request.path)
        if path.startswith(API):
            return await self._data(request, path.removeprefix(API))
        return serve_file(request)

    async def _data(self, request: HttpRequest, name: str) -> Reply:
        try:
            # Rejected requests are charged as well: a client that repeats them must not keep the scheduler busy.
            async with self._cpu.turn():
                reply = self._reply_now(request, name)
            return reply if isinstance(reply, Reply) else await self._answer_question(name, reply)
        except MoorageError as error:
            return problem(422, str(error))
        except Exception:  # one question must not end the service
            log.exception("a request failed", path=request.path)
            return problem(500, "internal error; see the log")

    def _reply_now(self, request: HttpRequest, name: str) -> Reply | Mapping[str, Any]:
        """Return a reply, or the arguments of a question for another process."""
        if (reading := self._reading.get(name)) is not None:
            if request.method not in ("GET", "HEAD"):
                return problem(405, "only GET is supported")
            return _json(reading(self._query(request.query)))
        if name not in ("pod", "node", "plan", "forecast", "try"):
            return problem(404, f"not found: {API}{name[:200]}")
        if (request.method == "POST") != (name == "try"):
            return problem(405, "use POST for try, and GET for all others")
        arguments: Mapping[str, Any] = request.query if name != "try" else _body(request)
        self._query(arguments)
        answer = self._source.answer_now(name, arguments)
        return arguments if answer is None else _json(answer)

    async def _answer_question(self, name: str, arguments: Mapping[str, Any]) -> Reply:
        query = self._query(arguments)
        answer = await self._source.ask(name, arguments, query.run, query.at)
        async with self._cpu.turn():
            if name == "pod":
                pod = answer["pod"]
                attempts = self._source.attempts(query.run, query.at, pod)
                line = next((line for line in self._source.waiting(query.run, query.at) if line.pod == pod), None)
                answer = {**answer, "attempts": attempts, "waiting": line}
            return _json(answer)

    def _query(self, parameters: Mapping[str, Any]) -> Query:
        return Query(parameters, len(self._source.about().runs))

    def _differences(self, query: Query) -> Any:
        differences = self._source.differences(query.at)
        return {"differences": differences[:MAX_DIFFERENCES], "count": len(differences)}

    def _pods(self, query: Query) -> Any:
        """List pending pods and pods on nodes, page by page: those of a namespace, or that contain a text."""
        search_text, namespace, state = (str(query.given.get(key, "")) for key in ("q", "namespace", "state"))
        pending_pods = () if state == "placed" else self._source.waiting(query.run, query.at)
        placed = () if state == "pending" else self._source.placed(query.run, query.at)
        namespaces = {line.pod.partition("/")[0] for line in pending_pods} | {pod.namespace for pod in placed}
        matches: list[WaitingPodLine | Pod] = [
            line for line in pending_pods if _is_in(line.pod, namespace) and _has(search_text, line.pod, line.owner)
        ]
        # The owner of a pod is formatted only for a search: a cluster may have very many pods.
        matches += (
            pod
            for pod in placed
            if (not namespace or pod.namespace == namespace)
            and (not search_text or _has(search_text, pod.key, pod.node_name, describe_owner(pod)))
        )
        if len(matches) <= MAX_SORTED:
            matches.sort(key=lambda item: (isinstance(item, Pod), item.key if isinstance(item, Pod) else item.pod))
        return {
            "pods": [_pod_line(item) for item in query.page(matches)],
            "count": len(matches),
            "namespaces": sorted(namespaces),
        }

    def _waiting(self, query: Query) -> Any:
        """List waiting pods, those of a group or with a text in the name, page by page."""
        search_text, group, queue = (str(query.given.get(key, "")) for key in ("q", "group", "place"))
        lines = self._lines(query)
        if group:
            is_meant = cache(lambda reasons: group_id(reasons) == group)
            lines = [line for line in lines if is_meant(list_reasons(line))]
        if queue:
            lines = [line for line in lines if line.place == queue]
        if search_text:
            lines = [line for line in lines if search_text in line.pod]
        return {"pods": query.page(lines), "count": len(lines), "namespaces": self._namespaces(query)}

    def _lines(self, query: Query) -> Sequence[WaitingPodLine]:
        namespace = str(query.given.get("namespace", ""))
        return [line for line in self._source.waiting(query.run, query.at) if _is_in(line.pod, namespace)]

    def _namespaces(self, query: Query) -> list[str]:
        return sorted({line.pod.partition("/")[0] for line in self._source.waiting(query.run, query.at)})

    def _reasons(self, query: Query) -> Any:
        """List the groups of waiting pods, those with a text in the reasons, page by page."""
        search_text = str(query.given.get("q", "")).lower()
        helps = self._source.helps(query.run, query.at)
        groups = group_lines(self._lines(query))
        if search_text:
            groups = [group for group in groups if any(search_text in text.lower() for text in list_reasons(group[0]))]
        return {
            "groups": [describe_group(group, helps) for group in query.page(groups)],
            "count": len(groups),
            "pods": sum(map(len, groups)),
            "namespaces": self._namespaces(query),
        }


def _is_in(key: str, namespace: str) -> bool:
    return not namespace or key.startswith(f"{namespace}/")


def _has(search_text: str, *texts: str) -> bool:
    return any(search_text in text for text in texts)


def _pod_line(item: WaitingPodLine | Pod) -> PodLine:
    if isinstance(item, WaitingPodLine):
        fields = {name: getattr(item, name) for name in ("pod", "owner", "priority", "requests", "created")}
        return PodLine(reason=list_reasons(item)[0], **fields)
    fields = pod_fields(item)
    del fields["group"]
    return PodLine(node=item.node_name, **fields)


def _body(request: HttpRequest) -> Mapping[str, Any]:
    # A page of another origin can send forms and plain text here, but for JSON a browser sends a preflight request.
    if request.header(b"content-type").partition(";")[0].strip() != "application/json":
        raise InputError("the body", "the content type is not JSON", hint="send Content-Type: application/json")
    try:
        arguments = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("the body", f"invalid JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise InputError("the body", "not a JSON object")
    return arguments


def _json(answer: Any) -> Reply:
    return Reply(200, msgspec.json.encode(answer), headers=SAFETY)
