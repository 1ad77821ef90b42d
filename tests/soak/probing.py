"""Probes and scrapes of a scheduler, each on a separate TLS connection, as kubelets and Prometheus do."""

import asyncio
import itertools
import ssl
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

PER_SECOND: Final = 10
LIVE: Final = "/livez"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
TASKS: Final = "/debug/pprof/goroutine"
PATIENCE: Final = 10.0
NO_ANSWER: Final = "no answer"


@dataclass
class Answers:
    """The number of responses of a page by status, and the slowest response."""

    statuses: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def __str__(self) -> str:
        text = ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()))
        return f"{text}; slowest {self.slowest:.2f} s"


class Prober:
    """Requests every page from the replicas in turn, ten times a second; a replica may be stopping or starting."""

    def __init__(self, ports: list[int], token: str) -> None:
        self.answers = {path: Answers() for path in (LIVE, READY, METRICS)}
        self._ports = ports
        self._token = token
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    async def run(self) -> None:
        """Request pages until cancelled; a page slower than the interval is not requested twice at a time."""
        await asyncio.gather(*(self._ask_again_and_again(path) for path in self.answers))

    async def tasks(self, port: int) -> int | None:
        """Return the number of tasks in the scheduler's loop, if it reports it."""
        status, body = await self._get(port, TASKS)
        return int(body.split(b" ", 1)[0]) if status == "200" else None

    async def _ask_again_and_again(self, path: str) -> None:
        answers = self.answers[path]
        for port in itertools.cycle(self._ports):
            began = time.monotonic()
            status, _ = await self._get(port, path)
            took = time.monotonic() - began
            answers.statuses[status] += 1
            if status != NO_ANSWER:
                answers.slowest = max(answers.slowest, took)
            await asyncio.sleep(max(0.0, 1 / PER_SECOND - took))

    async def _get(self, port: int, path: str) -> tuple[str, bytes]:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self._context)
                try:
                    # Probes of a kubelet have no token.
                    token = "" if path in (LIVE, READY) else f"Authorization: Bearer {self._token}\r\n"
                    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}\r\n".encode())
                    answer = await reader.read()
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return NO_ANSWER, b""
        head, _, body = answer.partition(b"\r\n\r\n")
        return (head.split(b" ", 2)[1].decode(), body) if head.startswith(b"HTTP/1.1 ") else (NO_ANSWER, b"")
