"""Snapshots: objects read from a cluster, omitted fields, renamed objects, and invalid files."""

from pathlib import Path

import pytest
from tests.unit.insight.explain.clusters import node, pod, session
from tests.unit.insight.snapshots.clusters import read

from moorage.common.errors import InputError
from moorage.insight.snapshots.snapshot_file import SnapshotFacts, read_snapshot, write_snapshot


def test_snapshot_can_be_explained_and_patched(tmp_path: Path) -> None:
    snapshot = read(node("n1"), pod("a", requests={"cpu": "9"}))
    assert {"nodes", "pods"} <= snapshot.versions.keys()
    path = tmp_path / "cluster.json.gz"
    write_snapshot(path, snapshot.contents, source="here", versions=snapshot.versions)
    contents, facts = read_snapshot(str(path))
    assert (contents, facts.source) == (snapshot.contents, "here")
    from moorage.insight.explain.pods import explain_pod

    with session(*contents) as opened:
        assert explain_pod(opened, "default/a").changes[0].kind == "request"


def test_ages_are_formatted() -> None:
    assert SnapshotFacts(0.0, "").age(3 * 86_400) == "3 days"


BAD_SNAPSHOTS = {
    "nothing": (None, "the file does not exist"),
    "no JSON": (b"{", r"not a snapshot \(it is not JSON\)"),
    "another file": (b'{"kind": "List", "items": []}', "the timestamp is missing"),
    "a list": (b"[]", "the timestamp is missing"),
}


@pytest.mark.parametrize(("body", "message"), BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS)
def test_invalid_snapshot_is_reported(body: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(InputError, match=message):
        read_snapshot(str(path))


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_snapshot_is_private(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_snapshot(path, [], source="here", versions={})
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_snapshot(str(path))[0] == []
