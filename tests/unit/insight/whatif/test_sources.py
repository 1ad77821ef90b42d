"""Sources of clusters and policies of a session."""

import json
from pathlib import Path

import pytest
from tests.unit.insight.whatif.clusters import NODES, Good, node, pod

from moorage import Session
from moorage.common.errors import ConfigError, InputError
from moorage.insight.snapshots.snapshot_file import write_snapshot

SOURCES = ("file", "path", "snapshot", "objects", "file and objects")


@pytest.mark.parametrize("source", SOURCES)
def test_session_opens_on_every_source(source: str, tmp_path: Path) -> None:
    file, snapshot = tmp_path / "cluster.json", tmp_path / "today.json"
    file.write_text("".join(json.dumps(obj) for obj in NODES))
    write_snapshot(snapshot, NODES, source="here", versions={})
    opened = {
        "file": lambda: Session.open(str(file)),
        "path": lambda: Session.open(file),
        "snapshot": lambda: Session.open(snapshot=snapshot),
        "objects": lambda: Session.open(*NODES),
        "file and objects": lambda: Session.open(file, node("e", 1)),
    }[source]
    with opened() as session:
        assert [row["node"] for row in session.filter(pod("web"))][:4] == ["a", "b", "c", "d"]


def test_a_configuration_is_a_file_or_its_text(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Good, weight: 7}]}}}]\n"
    )
    file = tmp_path / "config.yaml"
    file.write_text(text)
    for config in (text, file, str(file)):
        with Session.open(*NODES, plugins=[Good], config=config) as session:
            assert session.score(pod("web"), "Good")[0] == {"node": "d", "weighed": 630, "normalized": 90, "raw": 90}


def test_invalid_plugin_is_rejected() -> None:
    with pytest.raises(ConfigError, match="is not a plugin class"):
        Session.open(*NODES, plugins=[dict])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="module:Class"):
        Session.open(*NODES, plugins=["nothing"])
    with pytest.raises(InputError, match="the file does not exist"):
        Session.open("nowhere.yaml")
