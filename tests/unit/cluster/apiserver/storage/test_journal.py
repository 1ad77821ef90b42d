"""A store on disk: full disks and file permissions."""

import asyncio
import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moorage.cluster.apiserver.storage.journal import FILE, Journal
from moorage.common.errors import InputError, ServerError


def thing(name: str, size: int = 10) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "data": {"text": "x" * size}}


def give_room(journal: Journal, pages: int) -> None:
    """Limit the database to a number of pages, so that SQLite reports a full disk."""
    journal._database.execute(f"PRAGMA max_page_count = {pages}")


def test_failed_write_is_undone_and_later_writes_succeed(tmp_path: Path) -> None:
    async def run() -> None:
        journal = Journal(tmp_path)
        store = journal.store
        journal.start()
        store.put("things", "kept", thing("kept"))
        await journal.settle(store.version)
        events: list[str] = []
        store.subscribe(lambda _resource, change: events.append(change.event))

        give_room(journal, 8)
        store.put("things", "kept", thing("kept", 100_000))
        store.put("things", "new", thing("new", 100_000))
        with pytest.raises(ServerError, match=rf"{tmp_path}.*database or disk is full"):
            await journal.settle(store.version)
        assert store.get("things", "new") is None
        assert [entry.data["data"] for entry in store.list("things")] == [{"text": "x" * 10}]
        assert events == ["MODIFIED", "ADDED", "DELETED", "MODIFIED"]
        store.put("things", "again", thing("again", 100_000))
        with pytest.raises(ServerError):
            await journal.settle(store.version)

        give_room(journal, 10_000)
        store.put("things", "new", thing("new", 100_000))
        await journal.settle(store.version)
        await journal.close()

    asyncio.run(run())
    again = Journal(tmp_path)
    assert sorted(entry.key for entry in again.store.list("things")) == ["kept", "new"]
    asyncio.run(again.close())


def test_late_waiter_gets_the_error_of_an_undone_write(tmp_path: Path) -> None:
    async def run() -> None:
        journal = Journal(tmp_path)
        journal.start()
        give_room(journal, 6)
        journal.store.put("things", "new", thing("new", 100_000))
        version = journal.store.version
        with pytest.raises(ServerError):
            await journal.settle(version)
        with pytest.raises(ServerError):
            await journal.settle(version)
        await journal.settle(journal.store.version)
        await journal.close()

    asyncio.run(run())


def test_files_in_an_existing_directory_are_restricted_to_their_owner(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o755)
    (directory / "moorage.db").touch(mode=0o644)

    async def run() -> None:
        journal = Journal(directory)
        journal.start()
        journal.store.put("things", "a", thing("a"))
        await journal.settle(journal.store.version)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
        assert set(modes.values()) == {0o600}, modes
        await journal.close()

    before = directory.stat().st_mode
    asyncio.run(run())
    assert directory.stat().st_mode == before, "other programs may use the directory"


def test_new_directory_is_private(tmp_path: Path) -> None:
    asyncio.run(Journal(tmp_path / "new").close())
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "planted")
    with pytest.raises(InputError, match="cannot open the database"):
        Journal(tmp_path)
    assert not (tmp_path / "planted").exists()


METADATA = {"name": "x", "uid": "u", "resourceVersion": "2", "creationTimestamp": "2026-01-01T00:00:00Z"}


def stored(**changes: object) -> bytes:
    """Return a node with other metadata; None removes a field."""
    metadata = {key: field for key, field in (METADATA | changes).items() if field is not None}
    return json.dumps({"metadata": metadata}).encode()


DAMAGED = {
    "invalid JSON": ("pods", "default/x", b"\xff\x00"),
    "not an object": ("pods", "default/x", b"[]"),
    "no name": ("nodes", "x", stored(name=None)),
    "another name": ("nodes", "x", stored(name="y")),
    "no version": ("nodes", "x", stored(resourceVersion=None)),
    "another version": ("nodes", "x", stored(resourceVersion="3")),
    "no uid": ("nodes", "x", stored(uid=None)),
    "no time": ("nodes", "x", stored(creationTimestamp=None)),
    "nested too deeply": ("nodes", "x", stored()[:-1] + b', "a": ' + b"[" * 5000),
    "invalid text in another field": ("nodes", "x", stored()[:-1] + b', "spec": {"podCIDR": "\xff"}}'),
    "not bytes": ("pods", "default/x", 5),
}


@pytest.mark.parametrize("row", DAMAGED.values(), ids=DAMAGED)
def test_corrupt_object_is_skipped(row: tuple[str, str, object], tmp_path: Path) -> None:
    asyncio.run(Journal(tmp_path).close())
    resource, key, body = row
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        sound = ("nodes", "sound", 1, 1, stored(name="sound", resourceVersion="1"))
        database.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", [sound, (resource, key, 2, 2, body)])
    journal = Journal(tmp_path)
    assert [entry.key for each in ("nodes", "pods") for entry in journal.store.list(each)] == ["sound"]
    asyncio.run(journal.close())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE latest SET version = 'x'",
        "UPDATE latest SET version = -20000",
        "UPDATE latest SET version = 9223372036854775807",
        "UPDATE latest SET version = 9e999",
        "ALTER TABLE objects DROP COLUMN created",
    ],
)
def test_corrupt_database_is_rejected(statement: str, tmp_path: Path) -> None:
    asyncio.run(Journal(tmp_path).close())
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("INSERT OR REPLACE INTO latest VALUES (1, 7)")
        database.execute(statement)
    with pytest.raises(InputError, match=r"cannot read the database: .*\n  hint: "):
        Journal(tmp_path)


def test_database_with_a_damaged_schema_is_rejected(tmp_path: Path) -> None:
    asyncio.run(Journal(tmp_path).close())
    content = (tmp_path / FILE).read_bytes()
    assert b"CREATE TABLE objects" in content
    (tmp_path / FILE).write_bytes(content.replace(b"CREATE TABLE objects", b"CREATE T\xceBLE objects"))
    with pytest.raises(InputError, match=r"cannot open the database: .*\n  hint: "):
        Journal(tmp_path)
