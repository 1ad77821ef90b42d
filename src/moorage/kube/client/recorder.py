"""Events for users (events.k8s.io/v1): written in the background, repeated ones as a series.

Recording never waits. Up to a thousand events are queued. If the server is too slow, the newest are dropped and
counted. Bindings never wait for events.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec
import structlog
from msgspec import Struct

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from moorage.common.text import cut_note
from moorage.kube.api.kinds import BY_TYPE, Kind, find_kind
from moorage.kube.api.meta import KubeObject, format_micro_time, format_time
from moorage.kube.api.records import Event, EventNote, EventSeries
from moorage.kube.client.flow_control import EVENT_BACKOFF, TokenBucket
from moorage.kube.client.rest import JSON, MERGE_PATCH, ApiClient

MAX_QUEUE: Final = 1000
MAX_TRIES: Final = 12
MAX_WRITERS: Final = 32
EVENTS_PER_WRITER: Final = 4
MAX_SERIES: Final = 4096
REFRESH_SECONDS: Final = 30 * 60.0
FINISH_SECONDS: Final = 6 * 60.0

PASSING: Final = (Unreachable, ServerError, TooManyRequests)
"""Errors that a retry may resolve."""

KindOf: TypeAlias = Callable[[type[KubeObject]], Kind]
"""Finds the kind of a struct, in the version that the server serves."""
_EVENTS: Final = BY_TYPE[Event]
CORE_EVENTS: Final = "/api/v1/namespaces/{namespace}/events"
_encoder = msgspec.json.Encoder()

log = structlog.get_logger(__name__)

SeriesKey: TypeAlias = tuple[str, str, str, str, tuple[str, ...], tuple[str, ...]]


class EventMeta(Struct, frozen=True, gc=False):
    """The metadata fields that the recorder sets."""

    name: str
    namespace: str


class Reference(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Which object an event is about."""

    kind: str
    api_version: str
    name: str
    uid: str
    resource_version: str = ""
    namespace: str = ""


class WrittenEvent(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An event in wire format: the fields of the struct with kind and version."""

    api_version: str
    kind: str
    metadata: EventMeta
    event_time: str
    type: str
    reason: str
    action: str
    note: str
    regarding: Reference
    reporting_controller: str
    reporting_instance: str
    related: Reference | None = None
    series: EventSeries | None = None


class Outgoing(NamedTuple):
    """An event that is written: its reason, for messages, and the request."""

    reason: str
    method: str
    path: str
    body: bytes
    content_type: str = JSON
    series: WrittenEvent | None = None
    """The event to create if that of the series has expired."""


class Series(Struct):
    """An event and the number of its occurrences."""

    event: WrittenEvent
    last: float
    count: int = 1
    written: int = 1


class EventRecorder:
    """Writes events in the background. Start :meth:`run` once the loop runs. :meth:`flush` waits until all are out."""

    def __init__(
        self,
        client: ApiClient,
        hostname: str,
        clock: Clock,
        *,
        limit: TokenBucket | None = None,
        resolve_kind: KindOf = find_kind,
    ) -> None:
        self.dropped = 0
        self._client = client
        self._kind_of = resolve_kind
        self._hostname = hostname
        self._clock = clock
        self._limit = limit
        self._chance = Random()
        self._queue: deque[Outgoing] = deque()
        self._series: LRU[SeriesKey, Series] = LRU("event series", MAX_SERIES)
        self._writers: set[asyncio.Task[None]] = set()
        self._at_work = 0
        self._last_name = 0

    def record(self, note: EventNote) -> None:
        """Queue an event. A repeated event becomes a series."""
        key = series_key(note)
        series = self._series.find(key)
        now = self._clock.now()
        if series is None:
            series = Series(self._event(note, self._clock.wall()), now)
            self._series.put(key, series)
            self._send(_creation(series.event))
            return
        series.count += 1
        series.last = now
        if series.count == 2:
            self._send_state(series)

    def record_core(self, note: EventNote) -> None:
        """Queue an event of the core API, which never becomes a series."""
        now = self._clock.wall()
        about, moment = reference(note.regarding, self._kind_of), format_time(int(now))
        namespace = about.namespace or "default"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": EventMeta(self._name(about.name, now), namespace),
            "involvedObject": about,
            "reason": note.reason,
            "message": cut_note(note.note),
            "type": "Warning" if note.is_warning else "Normal",
            "source": {"component": note.controller},
            "reportingComponent": note.controller,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        self._send(Outgoing(note.reason, "POST", CORE_EVENTS.format(namespace=namespace), _encoder.encode(event)))

    async def run(self) -> None:
        """Refresh active series and finish ended ones, until cancelled."""
        since_refresh = 0.0
        while True:
            await asyncio.sleep(FINISH_SECONDS)
            since_refresh += FINISH_SECONDS
            self.finish_series()
            if since_refresh >= REFRESH_SECONDS:
                since_refresh = 0.0
                self.refresh_series()

    def finish_series(self) -> None:
        """Write the final count of series without recent events, and forget them."""
        oldest = self._clock.now() - FINISH_SECONDS
        for key, series in list(self._series.items()):
            if series.last < oldest:
                self._series.discard(key)
                self._send_state(series)

    def refresh_series(self) -> None:
        """Write the current count of all other series."""
        for _, series in self._series.items():
            self._send_state(series)

    async def flush(self) -> None:
        """Wait until all events are written."""
        while self._writers:
            await asyncio.wait(self._writers)

    def _send_state(self, series: Series) -> None:
        if series.count > series.written:
            series.written = series.count
            last = self._clock.wall() - (self._clock.now() - series.last)
            state = EventSeries(count=series.count, last_observed_time=format_micro_time(last))
            event, meta = msgspec.structs.replace(series.event, series=state), series.event.metadata
            path, body = _EVENTS.path(meta.name, meta.namespace), _encoder.encode({"series": state})
            self._send(Outgoing(event.reason, "PATCH", path, body, MERGE_PATCH, event))

    def _send(self, event: Outgoing) -> None:
        if len(self._queue) >= MAX_QUEUE:
            if self.dropped % MAX_QUEUE == 0:
                log.warning("events are dropped because the server is too slow", dropped=self.dropped + 1)
            self.dropped += 1
            return
        self._queue.append(event)
        self._staff()

    def _staff(self) -> None:
        """Start a writer if there are too few for the queue: a connection per writer costs more than many events.

        A writer ends with the queue, so an idle scheduler has none.
        """
        if self._at_work * EVENTS_PER_WRITER < len(self._queue) and len(self._writers) < MAX_WRITERS:
            self._at_work += 1
            self._writers.add(asyncio.get_running_loop().create_task(self._write_queue(), name="event writer"))

    async def _write_queue(self) -> None:
        try:
            while self._queue:
                event = self._queue.popleft()
                try:
                    if self._limit is not None:
                        await self._limit.acquire()
                    await self._send_once(event)
                except ApiError as error:
                    await self._try_again(event, error)
        finally:
            # Immediately, not in a later loop iteration: an event in between would find no writer.
            self._at_work -= 1
            self._writers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _try_again(self, event: Outgoing, error: ApiError) -> None:
        """Send an event with retries while they may help. Log a permanent failure."""
        tries = 1
        while tries < MAX_TRIES and isinstance(error, PASSING):
            pause = error.retry_after
            # While this writer waits, another one continues with the queue.
            seconds = EVENT_BACKOFF.delay(tries, self._chance) if pause is None else pause
            self._at_work -= 1
            self._staff()
            try:
                await asyncio.sleep(seconds)
            finally:
                self._at_work += 1
            if self._limit is not None:
                await self._limit.acquire()
            tries += 1
            try:
                await self._send_once(event)
            except ApiError as again:
                error = again
            else:
                return
        if isinstance(error, PASSING):
            log.warning("event dropped after too many attempts", reason=event.reason, tries=tries, error=str(error))
        elif isinstance(error, AlreadyExists):
            # The response was lost and the event was resent.
            log.debug("event already exists", reason=event.reason)
        else:
            log.warning("event rejected", reason=event.reason, error=str(error))

    async def _send_once(self, event: Outgoing) -> None:
        try:
            await self._client.request(event.method, event.path, event.body, event.content_type)
        except NotFound:
            if event.series is None:
                raise
            await self._send_once(_creation(event.series))

    def _event(self, note: EventNote, now: float) -> WrittenEvent:
        regarding = reference(note.regarding, self._kind_of)
        return WrittenEvent(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=EventMeta(self._name(regarding.name, now), regarding.namespace or "default"),
            event_time=format_micro_time(now),
            type="Warning" if note.is_warning else "Normal",
            reason=note.reason,
            action=note.action,
            note=cut_note(note.note),
            regarding=regarding,
            related=None if note.related is None else reference(note.related, self._kind_of),
            reporting_controller=note.controller,
            reporting_instance=f"{note.controller}-{self._hostname}",
        )

    def _name(self, regarding: str, now: float) -> str:
        # Two events of a nanosecond would have one name, and the second would be rejected.
        self._last_name = max(self._last_name + 1, int(now * 1e9))
        return f"{regarding}.{self._last_name:x}"


def _creation(event: WrittenEvent) -> Outgoing:
    path = _EVENTS.path(namespace=event.metadata.namespace)
    return Outgoing(event.reason, "POST", path, _encoder.encode(event))


def series_key(note: EventNote) -> SeriesKey:
    """Return the key of an event series. The text is not part of it."""
    kind = "Warning" if note.is_warning else "Normal"
    related = () if note.related is None else identity(note.related)
    return kind, note.action, note.reason, note.controller, identity(note.regarding), related


def identity(obj: KubeObject) -> tuple[str, ...]:
    """Return the reference to an object, including its version."""
    meta = obj.metadata
    return BY_TYPE[type(obj)].name, meta.namespace, meta.name, meta.uid, meta.resource_version


def reference(obj: KubeObject, resolve_kind: KindOf = find_kind) -> Reference:
    """Point to an object, in the version in which it was read."""
    kind, meta = resolve_kind(type(obj)), obj.metadata
    return Reference(kind.name, kind.api_version, meta.name, meta.uid, meta.resource_version, meta.namespace)
