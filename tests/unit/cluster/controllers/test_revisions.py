from typing import Any

import msgspec
from tests.support.reconciling import describe, make

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.kube.api.workloads import ControllerRevision, DaemonSet


def daemon_set(image: str = "log:1", **spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return make(DaemonSet, "log", spec={"template": template, "selector": {"matchLabels": {"app": "log"}}, **spec})


def revision(number: int, name: str = "", **content: Any) -> ControllerRevision:
    return make(ControllerRevision, name or f"log-{number}", revision=number, **content)


def test_template_is_recorded_once() -> None:
    workload = daemon_set()
    (created,) = History(workload, []).record(InformerCache())
    assert isinstance(created, Create)
    assert created.data["revision"] == 1
    assert created.data["data"]["spec"]["template"]["$patch"] == "replace"
    existing = make(ControllerRevision, created.data["metadata"]["name"], data=created.data["data"], revision=1)
    history = History(workload, [existing])
    assert history.record(InformerCache()) == []
    assert history.template(existing.name) == workload.spec.template


def test_restored_template_is_the_newest_revision() -> None:
    workload = daemon_set()
    name = History(workload, []).name
    assert describe(History(workload, [revision(1, name), revision(2)]).record(InformerCache())) == [f"change {name}"]


def test_orphaned_revision_is_adopted() -> None:
    orphan = revision(3, metadata={"labels": {"app": "log"}})
    assert describe(History(daemon_set(), []).record(InformerCache([orphan]))) == ["change log-3"]


def test_old_revisions_are_deleted_unless_in_use() -> None:
    workload = daemon_set(revisionHistoryLimit=1)
    used_revision = revision(2, metadata={"labels": {REVISION_LABEL: "used"}})
    existing = [revision(1), used_revision, revision(3), revision(4), revision(5, History(workload, []).name)]
    assert describe(History(workload, existing).forget({"used"})) == ["delete log-1", "delete log-3"]


def test_revision_data_is_deterministic() -> None:
    """Upstream's tests and kubectl compare the stored revision with one computed from a template."""
    (created,) = History(daemon_set(), []).record(InformerCache())
    assert isinstance(created, Create)
    text = msgspec.json.encode(created.data["data"])
    assert text == msgspec.json.encode(created.data["data"], order="sorted")
