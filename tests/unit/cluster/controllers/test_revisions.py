from typing import Any

import msgspec
from tests.support.reconciling import make, said

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.kube.api.workloads import ControllerRevision, DaemonSet


def daemon_set(image: str = "log:1", **spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return make(DaemonSet, "log", spec={"template": template, "selector": {"matchLabels": {"app": "log"}}, **spec})


def revision(number: int, name: str = "", **content: Any) -> ControllerRevision:
    return make(ControllerRevision, name or f"log-{number}", revision=number, **content)


def test_a_template_is_written_down_once() -> None:
    wanted = daemon_set()
    (made,) = History(wanted, []).record(InformerCache())
    assert isinstance(made, Create)
    assert made.data["revision"] == 1
    assert made.data["data"]["spec"]["template"]["$patch"] == "replace"
    known = make(ControllerRevision, made.data["metadata"]["name"], data=made.data["data"], revision=1)
    history = History(wanted, [known])
    assert history.record(InformerCache()) == []
    assert history.template(known.name) == wanted.spec.template


def test_a_template_that_came_back_is_the_newest() -> None:
    wanted = daemon_set()
    name = History(wanted, []).name
    assert said(History(wanted, [revision(1, name), revision(2)]).record(InformerCache())) == [f"change {name}"]


def test_a_revision_that_was_let_go_is_taken_over() -> None:
    orphan = revision(3, metadata={"labels": {"app": "log"}})
    assert said(History(daemon_set(), []).record(InformerCache([orphan]))) == ["change log-3"]


def test_the_oldest_are_forgotten_unless_pods_are_of_them() -> None:
    wanted = daemon_set(revisionHistoryLimit=1)
    used = revision(2, metadata={"labels": {REVISION_LABEL: "used"}})
    known = [revision(1), used, revision(3), revision(4), revision(5, History(wanted, []).name)]
    assert said(History(wanted, known).forget({"used"})) == ["delete log-1", "delete log-3"]


def test_two_writers_write_a_template_down_in_the_same_way() -> None:
    """Upstream's own tests, and kubectl, compare what is written with what a template at hand would give."""
    (made,) = History(daemon_set(), []).record(InformerCache())
    assert isinstance(made, Create)
    text = msgspec.json.encode(made.data["data"])
    assert text == msgspec.json.encode(made.data["data"], order="sorted")
