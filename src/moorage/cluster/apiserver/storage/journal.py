"""Persistence in SQLite: every change is on disk before its writer gets a response.

Changes that arrive while a transaction is written go into the next one. Several writers then share one flush of the
disk. A separate thread writes. The event loop never waits for the disk. Changes that cannot be written are undone, so
that readers never see a write that was reported as failed. The next change retries.
"""

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import structlog

from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange
from moorage.common.errors import InputError, ServerError
from moorage.kube.api.codec import UNREADABLE

FILE: Final = "moorage.db"
GAP: Final = 10_000
"""Increase of the version at a restart: watchers may have seen versions that did not reach the disk."""

MAX_VERSION: Final = 1 << 62
"""Versions beyond are damaged, and SQLite could not store those of later changes."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, created INTEGER NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS latest (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL);
"""
_PUT: Final = (
    "INSERT INTO objects VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (resource, key) DO UPDATE SET version = excluded.version, body = excluded.body"
)
_DELETE: Final = "DELETE FROM objects WHERE resource = ? AND key = ?"
_LATEST: Final = "INSERT INTO latest VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET version = excluded.version"

log = structlog.get_logger(__name__)


class Journal:
    """Persists a store in a directory. Call :meth:`start` on the event loop that calls :meth:`settle`."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self._pending: list[tuple[str, StoredChange]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._committed = 0
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._is_started = False
        self._is_undoing = False
        self._undone: tuple[range, ServerError] | None = None
        """The versions of the last changes that could not be written, and why."""
        self._database = self._open(directory)
        try:
            self.store = self._read()
        except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:
            self._database.close()
            hint = "use another --data-dir, or a copy of the file from before it was damaged"
            raise InputError(str(self._file), f"cannot read the database: {error}", hint=hint) from error
        self.store.subscribe(self._on_change)

    def _open(self, directory: Path) -> sqlite3.Connection:
        database: sqlite3.Connection | None = None
        try:
            _make_private(directory, self._file)
            # One thread at a time uses it: this thread until the first change, then the journal's own.
            database = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None, timeout=1.0)
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.executescript(_SCHEMA)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # messages of SQLite may quote damaged text
            if database is not None:
                database.close()
            hint = "use another --data-dir, or stop the process that uses it"
            raise InputError(
                str(self._file), f"cannot open the database: {getattr(error, 'strerror', None) or error}", hint=hint
            ) from error
        return database

    def _read(self) -> Store:
        latest = self._database.execute("SELECT version FROM latest").fetchone()
        version = int(latest[0]) + GAP if latest is not None else 0
        if not 0 <= version <= MAX_VERSION:
            raise ValueError(f"the version {version} is not between 0 and {MAX_VERSION}")
        store = Store(version=version)
        rows = self._database.execute("SELECT resource, key, version, body FROM objects ORDER BY created")
        for resource, key, at, body in rows:
            if isinstance(at, int) and 0 < at <= MAX_VERSION and _is_object(body, key, at):
                store.restore(resource, Entry(key, at, body))
            else:
                # One unreadable object would prevent the listing of its kind.
                log.error("damaged object skipped", resource=resource, key=key, file=str(self._file))
        store.forget_history()
        self._committed = version
        return store

    def start(self) -> None:
        """Start to write, on the running loop."""
        self._is_started = True
        self._write_soon()

    async def close(self) -> None:
        """Write the remaining lines and close the file."""
        if self._task is not None:
            await asyncio.wait([self._task])
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    def _on_change(self, resource: str, change: StoredChange) -> None:
        if self._is_undoing:
            return
        self._pending.append((resource, change))
        if self._is_started:
            self._write_soon()

    def _write_soon(self) -> None:
        if self._pending and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def settle(self, version: int) -> None:
        """Wait until everything up to a version is on disk; :class:`ServerError` if it cannot be."""
        if self._undone is not None and version in self._undone[0]:
            raise self._undone[1]
        if version <= self._committed:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((version, future))
        self._write_soon()
        await future

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    await loop.run_in_executor(self._thread, self._commit, batch)
                except (sqlite3.Error, OverflowError) as error:
                    log.exception("cannot write data", file=str(self._file))
                    problem = f"the data cannot be written to {self._file}: {error}"
                    failure = ServerError(problem, status=500, reason="InternalError")
                    self._undo(batch + self._pending, failure)
                    return
                self._committed = batch[-1][1].version
                for _, future in (item for item in self._waiting if item[0] <= self._committed):
                    if not future.done():
                        future.set_result(None)
                self._waiting = [item for item in self._waiting if item[0] > self._committed]
        finally:
            self._task = None

    def _commit(self, batch: list[tuple[str, StoredChange]]) -> None:
        database = self._database
        database.execute("BEGIN")
        try:
            for resource, change in batch:
                after = change.after
                if after is not None:
                    database.execute(_PUT, (resource, after.key, after.version, after.version, after.body))
                elif change.before is not None:
                    database.execute(_DELETE, (resource, change.before.key))
            database.execute(_LATEST, (batch[-1][1].version,))
            database.execute("COMMIT")
        except (sqlite3.Error, OverflowError):
            # On a full disk SQLite has rolled back already. A second rollback would hide the cause.
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _undo(self, changes: list[tuple[str, StoredChange]], failure: ServerError) -> None:
        """Restore the state on disk, and fail the waiting writers."""
        self._pending = []
        self._undone = (range(changes[0][1].version, self.store.version + 1), failure)
        first: dict[tuple[str, str], Entry | None] = {}
        for resource, change in changes:
            entry = change.after or change.before
            assert entry is not None
            first.setdefault((resource, entry.key), change.before)
        self._is_undoing = True
        try:
            for (resource, key), before in reversed(first.items()):
                self.store.undo(resource, key, before)
        finally:
            self._is_undoing = False
        self._committed = self.store.version
        waiting_writes, self._waiting = self._waiting, []
        for _, future in waiting_writes:
            if not future.done():
                future.set_exception(failure)


def _make_private(directory: Path, file: Path) -> None:
    """Restrict access to the owner, because the data includes secrets. An existing directory keeps its mode."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    for part in (file, file.with_name(f"{FILE}-wal"), file.with_name(f"{FILE}-shm")):
        if part.exists():
            part.chmod(0o600)


class _Metadata(msgspec.Struct, rename="camel"):
    """The fields that the server relies on."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: str
    namespace: str = ""


class _Stored(msgspec.Struct):
    metadata: _Metadata


def _is_object(body: bytes, key: str, version: int) -> bool:
    """Return whether a row contains the object of its key and version."""
    try:
        # Decode all fields: a decoder of a type skips invalid text in other fields.
        metadata = msgspec.convert(msgspec.json.decode(body), _Stored).metadata
    except (*UNREADABLE, TypeError):
        return False
    if metadata.resource_version != str(version):
        return False
    return key == (f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name)
