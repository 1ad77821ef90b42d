"""Following the files that say how to schedule: what is saved is taken up, what cannot be used is refused and said.

Files are looked at, not watched: that sees a file that was replaced, a link that leads elsewhere (as a ConfigMap's does
after a change) and a folder that was mounted over as well, on every file system.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final, Protocol

import structlog

from moorage.common.errors import MoorageError, explain
from moorage.scheduler.framework.plugin_code import PluginCode

POLL_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class FilesFollowed:
    """The contents of some files as they were last looked at; a file that is away for a moment counts as unchanged."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._seen: dict[Path, tuple[object, str]] = {}
        self._missing: set[Path] = set()
        self.look()

    def look(self) -> list[Path]:
        """Return which files have other contents than at the last look; those that are new here have not."""
        changed = []
        for file in self._files():
            stamp = _stamp(file)
            known = self._seen.get(file)
            if stamp is None:
                # Many editors remove a file, or move it away, before they write it anew.
                if known is not None and known[1] and file in self._missing:
                    self._seen[file] = None, ""
                    changed.append(file)
                self._missing.add(file)
                continue
            self._missing.discard(file)
            if known is not None and known[0] == stamp:
                continue
            digest = _digest(file)
            self._seen[file] = stamp, digest
            if known is not None and known[1] != digest:
                changed.append(file)
        return changed


def _stamp(file: Path) -> object | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _digest(file: Path) -> str:
    import hashlib

    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


class Told(Protocol):
    """Who is to know what became of a change."""

    def taken(self, fixed: list[str]) -> None:
        """Learn that a change is in force; ``fixed`` cannot change while the scheduler runs."""
        ...

    def refused(self, problem: str) -> None:
        """Learn that a change cannot be used, and why."""
        ...


class FileFollower:
    """Has changes of a configuration file and of plugins' code taken up, one at a time.

    ``apply`` loads both and has them used; it returns what cannot change while running, or raises MoorageError.
    """

    def __init__(
        self, config: Path | None, plugins: Iterable[str], apply: Callable[[], Awaitable[list[str]]], told: Told
    ) -> None:
        self._config = () if config is None else (config.absolute(),)
        self._code = PluginCode(plugins)
        self._files = FilesFollowed(lambda: (*self._config, *self._code.files()))
        self._apply = apply
        self._told = told
        self._asked = asyncio.Event()
        self._is_stale = False
        """Whether other code than what runs was found, and refused."""

    def ask(self) -> None:
        """Have everything read again soon, whether or not it has changed."""
        self._asked.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._asked.wait()
            changed, is_asked = self._files.look(), self._asked.is_set()
            self._asked.clear()
            if changed or is_asked:
                self._is_stale = self._is_stale or any(file not in self._config for file in changed)
                await self._take_up()

    async def _take_up(self) -> None:
        try:
            with self._code.afresh() if self._is_stale else nullcontext():
                fixed = await self._apply()
        except MoorageError as error:
            self._told.refused(explain(error))
        except Exception as error:  # the scheduler goes on with what it has, whatever became of this
            log.exception("change failed unexpectedly")
            self._told.refused(f"internal error: {type(error).__name__}: {error}")
        else:
            self._is_stale = False
            self._told.taken(fixed)
