"""The child process that handles the page's questions about a live cluster."""

import asyncio
import sys
from time import monotonic
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import structlog

from moorage.common.child_process import ParentChannel, lower_priority
from moorage.common.errors import MoorageError
from moorage.insight.explain.explain_events import ExplainRequest
from moorage.insight.explain.explain_worker import open_session
from moorage.insight.page.question_handlers import answer
from moorage.insight.page.question_process import PageAnswer, PageQuestion
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.records import EventSeries
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient

MAX_AGE_SECONDS: Final = 15.0
"""Older data is reloaded, except during a search for changes that help."""
SERIES: Final = ("helps",)
"""Questions of a search, which may use data of the last minute."""
MAX_SERIES_AGE_SECONDS: Final = 60.0

MAX_EVENTS: Final = 100

log = structlog.get_logger(__name__)


class _CoreEvent(msgspec.Struct, rename="camel"):
    """An event of the core API, which has the timestamps of both old and new clients."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None


class _CoreEvents(msgspec.Struct):
    items: list[_CoreEvent] = []


def main() -> int:
    """Handle questions until the parent closes the channel."""
    lower_priority()
    channel = ParentChannel()
    request = channel.receive(msgspec.msgpack.Decoder(ExplainRequest))
    questions = msgspec.msgpack.Decoder(PageQuestion)
    session, read_at = None, 0.0
    while request is not None and (question := channel.receive(questions)) is not None:
        max_age = MAX_SERIES_AGE_SECONDS if question.question in SERIES else MAX_AGE_SECONDS
        try:
            if session is None or monotonic() - read_at > max_age:
                fresh = open_session(request)
                if session is not None:
                    session.close()
                session, read_at = fresh, monotonic()
            result = answer(session, question.question, question.asked)
            if question.question == "pod":
                result["events"] = list_events(request, result["pod"])
            reply = PageAnswer(result)
        except MoorageError as error:
            reply = PageAnswer(problem=str(error))
        except Exception:  # one question must not end the process
            log.exception("a request of the web page failed", question=question.question)
            reply = PageAnswer(problem="internal error; see the log")
        channel.send(reply)
    return 0


def list_events(request: ExplainRequest, pod: str) -> list[dict[str, Any]] | str:
    """Return the events of a pod, the newest first; a message if they cannot be read."""
    namespace, _, name = pod.partition("/")
    fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
    path = f"/api/v1/namespaces/{quote(namespace)}/events?{urlencode({'fieldSelector': fields, 'limit': MAX_EVENTS})}"

    async def read() -> bytes:
        async with ApiClient(load_connection(request.kubeconfig, request.master)) as client:
            return await client.request("GET", path)

    try:
        items = msgspec.json.decode(asyncio.run(read()), type=_CoreEvents).items
    except (MoorageError, *UNREADABLE) as error:
        return str(error)
    events = [
        {
            "time": (item.series and item.series.last_observed_time) or item.last_timestamp or item.event_time or "",
            "count": max(item.series.count if item.series else 0, item.count, 1),
            "type": item.type,
            "reason": item.reason,
            "message": item.message,
        }
        for item in items
    ]
    return sorted(events, key=lambda event: str(event["time"]), reverse=True)


if __name__ == "__main__":
    sys.exit(main())
