"""Streaming of watches: changes are written to all watchers without a task per watch."""

import asyncio
from collections.abc import Iterator
from typing import Final

from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.kube.http.messages import JSON, Sink, chunk

MAX_WATCH_SECONDS: Final = 1800.0
BOOKMARK_SECONDS: Final = 30.0
MAX_STALL: Final = 60.0
"""The time after which an unread watch is aborted; a client that still exists relists and restarts its watch."""


class Watchers:
    """All open watches. Changes that occur while requests are read are sent in one write."""

    def __init__(self, store: Store) -> None:
        self._streams: dict[str, set[WatchStream]] = {}
        self._changed: set[str] = set()
        self._shared = (b"", b"")
        store.subscribe(self._note)

    def stream(self, watch: Watch) -> "WatchStream":
        """Return a watch as a streaming response."""
        return WatchStream(watch, self)

    def tick(self) -> None:
        """Check the timeouts of all watches."""
        for streams in self._streams.values():
            for stream in tuple(streams):
                stream.tick()

    def add(self, stream: "WatchStream") -> None:
        """Notify a watch of changes from now on."""
        self._streams.setdefault(stream.watch.resource.storage, set()).add(stream)

    def discard(self, stream: "WatchStream") -> None:
        """Stop notifying a watch."""
        self._streams.get(stream.watch.resource.storage, set()).discard(stream)

    def wrapped(self, text: bytes) -> bytes:
        """Return a text as an HTTP chunk. Equal texts share one chunk."""
        last_text, piece = self._shared
        if text is not last_text:
            piece = chunk(text)
            self._shared = (text, piece)
        return piece

    def _note(self, resource: str, _change: StoredChange) -> None:
        if self._streams.get(resource):
            if not self._changed:
                asyncio.get_running_loop().call_soon(self._notify)
            self._changed.add(resource)

    def _notify(self) -> None:
        changed_keys, self._changed = self._changed, set()
        for resource in changed_keys:
            for stream in tuple(self._streams[resource]):
                stream.resume_sending()
        self._shared = (b"", b"")


class WatchStream:
    """One watch as a streaming response."""

    content_type = JSON

    def __init__(self, watch: Watch, watchers: Watchers) -> None:
        self.watch = watch
        self._watchers = watchers
        self._loop = asyncio.get_running_loop()
        self._first: Iterator[bytes] | None = watch.begin()
        self._sink: Sink | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._end_at = self._bookmark_at = 0.0
        self._stalled_at: float | None = None

    def start(self, sink: Sink) -> None:
        """Start to send the initial objects."""
        self._sink = sink
        seconds = min(self.watch.terms.seconds or MAX_WATCH_SECONDS, MAX_WATCH_SECONDS)
        self._end_at = self._loop.time() + seconds
        self._bookmark_at = self._loop.time() + BOOKMARK_SECONDS
        self._alarm = self._loop.call_later(seconds, self.tick)
        self._watchers.add(self)
        self.resume_sending()

    def resume_sending(self) -> None:
        """Send new events until the send buffer is full."""
        sink = self._sink
        if sink is None or sink.is_full:
            return
        self._stalled_at = None
        for piece in self._first or ():
            sink.send(chunk(piece))
            if sink.is_full:
                return
        self._first = None
        if text := self.watch.take():
            sink.send(self._watchers.wrapped(text))
        if self.watch.is_over:
            self._end(sink)

    def tick(self) -> None:
        """Send a bookmark when one is due, and end the watch when its timeout expires."""
        self.resume_sending()
        sink, now = self._sink, self._loop.time()
        if sink is None:
            return
        if sink.is_full:
            self._stalled_at = now if self._stalled_at is None else self._stalled_at
            if now - self._stalled_at >= MAX_STALL:
                self.stop()
                sink.abort()
            return
        if self._first is not None:
            return
        is_over = now >= self._end_at
        if self.watch.terms.wants_bookmarks and (is_over or now >= self._bookmark_at):
            self._bookmark_at = now + BOOKMARK_SECONDS
            sink.send(chunk(self.watch.bookmark()))
        if is_over:
            self._end(sink)

    def _end(self, sink: Sink) -> None:
        self.stop()
        sink.end()

    def stop(self) -> None:
        """Stop: the client disconnected, or the watch is over."""
        self._sink = None
        self._watchers.discard(self)
        if self._alarm is not None:
            self._alarm.cancel()
