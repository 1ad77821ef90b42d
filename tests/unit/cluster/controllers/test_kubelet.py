from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, pod, status_in, waits_in

from moorage.cluster.controllers.actions import ControllerAction
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import (
    FAIL,
    FAKE_LABEL,
    Kubelet,
    KubeletPace,
    command_annotations,
    next_step,
)
from moorage.common.clock import VirtualClock
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod

PACE = KubeletPace(start=2.0, run=7.0, stop=3.0)


def step(obj: Pod, seconds: float) -> list[ControllerAction]:
    return list(next_step(obj, PACE, since=NOW - seconds, now=NOW))


WAITS = {
    "containers start after the default delay": (pod(phase="Pending"), 0.5, [1.5]),
    "the start delay of an annotation": (
        pod(phase="Pending", annotations={"moorage.io/start-delay": "1m"}),
        0.0,
        [60.0],
    ),
    "a restarted pod runs forever": (pod(restartPolicy="Always"), 999.0, []),
    "a pod that is not restarted runs for the default time": (pod(restartPolicy="Never"), 3.0, [4.0]),
    "the run time of an annotation": (pod(annotations={"moorage.io/run-for": "90"}), 30.0, [60.0]),
    "containers stop after the default delay": (pod(stopping=True), 1.0, [2.0]),
    "an invalid duration is treated as absent": (
        pod(phase="Pending", annotations={"moorage.io/start-delay": "soon"}),
        0.0,
        [2.0],
    ),
    "a finished pod has no next step": (pod(phase="Succeeded"), 0.0, []),
}


@pytest.mark.parametrize(("obj", "seconds", "want"), WAITS.values(), ids=WAITS)
def test_waits(obj: Pod, seconds: float, want: list[float]) -> None:
    actions = step(obj, seconds)
    assert waits_in(actions) == want
    assert len(actions) == len(want)


PHASES = {
    "a pod starts": (pod(phase="Pending"), 2.0, "Running"),
    "a pod succeeds": (pod(restartPolicy="OnFailure"), 7.0, "Succeeded"),
    "it fails": (pod(restartPolicy="Never", annotations={"moorage.io/exit-code": "3"}), 7.0, "Failed"),
}


@pytest.mark.parametrize(("obj", "seconds", "want"), PHASES.values(), ids=PHASES)
def test_phases(obj: Pod, seconds: float, want: str) -> None:
    status = status_in(step(obj, seconds))
    assert status["phase"] == want
    ready = next(item["status"] for item in status["conditions"] if item["type"] == "Ready")
    assert ready == ("True" if want == "Running" else "False")
    assert [item["name"] for item in status["containerStatuses"]] == ["main"]


def test_pod_with_a_missing_image_reports_it_once() -> None:
    containers = [{"name": "main", "image": "foo:non-existent"}]
    status = status_in(step(pod(phase="Pending", containers=containers), 2.0))
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull"
    current = make(Pod, "pod", spec={"nodeName": "n1", "containers": containers}, status=status)
    assert step(current, 99.0) == []


def test_stopped_pod_is_deleted_immediately() -> None:
    assert describe(step(pod(stopping=True), 3.0)) == ["delete pod at once"]


def test_grace_period_limits_the_stop_delay() -> None:
    stubborn = pod(stopping=True, annotations={"moorage.io/stop-delay": "1h"})
    assert waits_in(step(stubborn, 0.0)) == [30.0]


def test_foreign_conditions_are_preserved() -> None:
    placed = make(Pod, "p", status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
    kinds = [item["type"] for item in status_in(step(placed, 9.0))["conditions"]]
    assert kinds[0] == "PodScheduled"


def node(**annotations: str) -> Node:
    return make(Node, "n1", metadata={"labels": {FAKE_LABEL: "true"}, "annotations": annotations})


SILENCE = {
    "a fake node runs its pods": (node(), True),
    "a failing node does not run its pods": (node(**{FAIL: "true"}), False),
    "a real node has its own kubelet": (make(Node, "n1"), False),
}


@pytest.mark.parametrize(("obj", "want"), SILENCE.values(), ids=SILENCE)
def test_only_pods_of_fake_nodes_run(obj: Node, want: bool) -> None:
    kubelet = Kubelet(VirtualClock(), KubeletPace(start=0.0))
    assert bool(list(kubelet.reconcile("shop/pod", InformerCache([obj, pod(phase="Pending")])))) is want


def test_pod_that_arrives_before_its_node_starts_with_the_node() -> None:
    kubelet, cache, late = (
        Kubelet(VirtualClock(), KubeletPace(start=0.0)),
        InformerCache([pod(phase="Pending")]),
        node(),
    )
    assert list(kubelet.reconcile("shop/pod", cache)) == []
    cache[Node].put(late)
    assert list(kubelet.affected(late, cache)) == ["shop/pod"]
    assert status_in(kubelet.reconcile("shop/pod", cache))["phase"] == "Running"
    assert list(kubelet.affected(late, cache)) == []


def test_pod_created_with_a_node_gets_the_scheduled_condition() -> None:
    conditions = {item["type"]: item for item in status_in(step(pod(phase="Pending"), 2.0))["conditions"]}
    assert conditions["PodScheduled"]["status"] == "True"


def test_scheduled_condition_of_the_scheduler_is_preserved() -> None:
    said_before = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    obj = make(Pod, "web", spec={"nodeName": "n1"}, status={"phase": "Pending", "conditions": [said_before]})
    current = [item for item in status_in(step(obj, 2.0))["conditions"] if item["type"] == "PodScheduled"]
    assert current == [said_before]


RUN, CODE = "moorage.io/run-for", "moorage.io/exit-code"
CASES = {
    "no command": ([], {}),
    "a sleep": (["sleep", "300"], {RUN: "300s"}),
    "a sleep with an absolute path": (["/bin/sleep", "2m"], {RUN: "120s"}),
    "a sleep of a fraction of a second": (["sleep", "0.5"], {RUN: "500ms"}),
    "exit code 1": (["/bin/sh", "-c", "exit 1"], {CODE: "1"}),
    "exit code 0": (["sh", "-c", "exit 0"], {CODE: "0"}),
    "two sleeps and an exit code": (
        ["bash", "-c", "sleep 2; echo so far; sleep 3 && exit 42"],
        {RUN: "5s", CODE: "42"},
    ),
    "commands after exit are ignored": (["sh", "-c", "exit 3; sleep 5"], {CODE: "3"}),
    "the last command sets the exit code": (["sh", "-c", "false; true"], {}),
    "false has exit code 1": (["false"], {CODE: "1"}),
    "a computed exit code is not imitated": (["sh", "-c", "exit $(( $RANDOM / 2 ))"], {}),
    "another command is not imitated": (["sh", "-c", "sleep 5; make"], {}),
    "an unknown program is not imitated": (["python", "-m", "train"], {}),
    "an invalid duration is not imitated": (["sleep", "forever"], {}),
    "an empty command": (["sh", "-c", "  "], {}),
}


@pytest.mark.parametrize(("command", "want"), CASES.values(), ids=CASES)
def test_command_is_imitated(command: list[str], want: dict[str, str]) -> None:
    for container in ({"command": command}, {"command": command[:1], "args": command[1:]}):
        assert command_annotations({"spec": {"containers": [container]}}) == want


OTHERS: dict[str, dict[str, Any]] = {
    "an empty template": {},
    "several containers": {"spec": {"containers": [{"command": ["sleep", "1"]}, {}]}},
    "annotations of the template take precedence": {
        "metadata": {"annotations": {RUN: "1h"}},
        "spec": {"containers": [{"command": ["sleep", "1"]}]},
    },
}


@pytest.mark.parametrize("template", OTHERS.values(), ids=OTHERS)
def test_unsupported_command_has_no_annotations(template: dict[str, Any]) -> None:
    assert command_annotations(template) == {}
