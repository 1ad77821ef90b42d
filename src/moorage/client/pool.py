"""A pool of HTTP/1.1 connections to one server.

A full HTTP client takes five times the CPU for a request, most of it for what is not needed here: cookies, redirects,
compression, parsed addresses and a timer for each request. Instead of timers, one sweep looks at all connections.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from moorage.client.certificates import Tls
from moorage.client.dialing import CONNECT_SECONDS, Dialer
from moorage.client.wire import Answer, Incoming, Stream, Wire
from moorage.errors import InputError, Unreachable

ANSWER_SECONDS: Final = 65.0
"""An API server gives up on a request after a minute; silence for longer means that nobody is there."""
IDLE_SECONDS: Final = 50.0
"""An unused connection is closed before the server does, so that a request never meets a server that hangs up."""
SWEEP_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 300.0
"""How often certificates in files are compared with those in use, as client-go does."""


class Transport(Protocol):
    """What carries requests to a server: a pool of connections, or in tests a server in the same process."""

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        ...

    async def send(self, request: bytes, seconds: float) -> Answer:
        """Send a request and return the answer; :class:`Unreachable` if none comes in time."""
        ...

    def stream(self, request: bytes, patience: float) -> AbstractAsyncContextManager[Incoming]:
        """Send a request and give the block its answer as it arrives, no pause being longer than ``patience``."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class HttpPool:
    """Connections to ``server``, a URL without a path, made as they are needed and kept for the next request."""

    def __init__(
        self,
        server: str,
        *,
        tls: Tls | None = None,
        server_name: str = "",
        proxy: str = "",
        source: str = "",
    ) -> None:
        self.server = server
        self.source = source or server
        self._dialer = Dialer(server, tls=tls, server_name=server_name, proxy=proxy)
        self._idle: list[Wire] = []
        self._all: set[Wire] = set()
        self._outdated: set[Wire] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._refreshed = 0.0
        self._tls = tls
        if tls is not None:
            tls.on_change(self._connect_anew)

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        return self._dialer.host_header

    async def send(self, request: bytes, seconds: float = ANSWER_SECONDS) -> Answer:
        """Send a request and return the answer; :class:`Unreachable` if none comes."""
        wire = await self._wire()
        wire.deadline = self._time() + seconds
        try:
            answer = await wire.ask(request)
        except Unreachable as error:
            raise Unreachable(f"no answer from {self.server}: {error}") from error
        except asyncio.CancelledError:
            # The answer may still come; the next request must not take it for its own.
            wire.close()
            raise
        self._put_back(wire)
        return answer

    @asynccontextmanager
    async def stream(self, request: bytes, patience: float) -> AsyncIterator[Stream]:
        """Send a request and give the block its answer as it arrives."""
        wire = await self._wire()
        try:
            yield wire.listen(request, patience)
        except Unreachable as error:
            raise Unreachable(f"no answer from {self.server}: {error}") from error
        finally:
            # Not worth keeping: a watch ends once in minutes, and may end in the middle of an answer.
            wire.close()
            self._all.discard(wire)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._all:
            wire.give_up("the client was closed")
        self._all.clear()
        self._idle.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    async def _wire(self) -> Wire:
        while self._idle:
            wire = self._idle.pop()
            if wire.is_open:
                return wire
            self._all.discard(wire)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                wire = await self._dialer.dial()
        except ssl.SSLCertVerificationError as error:
            hint = "check certificate-authority-data and tls-server-name in the kubeconfig"
            problem = f"the certificate of {self.server} is not trusted: {error.verify_message}"
            raise InputError(self.source, problem, hint=hint) from error
        except (OSError, TimeoutError) as error:
            told = "nobody answers" if isinstance(error, TimeoutError) else str(error)
            raise Unreachable(f"no connection to {self.server}: {told}", was_sent=False) from error
        self._all.add(wire)
        self._sweep_later()
        return wire

    def _put_back(self, wire: Wire) -> None:
        if wire.is_open:
            wire.deadline = self._time() + IDLE_SECONDS
            self._idle.append(wire)
        else:
            wire.close()
            self._all.discard(wire)

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._all:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what has been unused, or has kept somebody waiting, for too long."""
        self._sweeper = None
        now = self._time()
        for wire in [wire for wire in self._all if wire.deadline <= now or not wire.is_open]:
            wire.give_up("it took too long")
            self._all.discard(wire)
        self._idle = [wire for wire in self._idle if wire.is_open]
        if self._tls is not None and now - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = now
            self._tls.refresh()
        self._drop_outdated()
        self._sweep_later()

    def _connect_anew(self) -> None:
        """Use no connection again that was made before who we are, or whom we trust, has changed."""
        self._outdated = set(self._all)
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Close outdated connections as they fall idle; a watch, which is never used again, may go on to its end."""
        if not self._outdated:
            return
        for wire in self._outdated.intersection(self._idle):
            wire.close()
            self._all.discard(wire)
        self._idle = [wire for wire in self._idle if wire.is_open]
        self._outdated &= self._all
