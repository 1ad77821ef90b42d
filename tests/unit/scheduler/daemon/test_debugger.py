"""The output of SIGUSR2."""

from typing import Any

import pytest

from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.daemon.debugger import Debugger
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.queue.observer import Story
from moorage.testing.builders import make_node, make_pod

NODE, PLACED, WAITING = make_node("n"), make_pod("placed", node="n"), make_pod("waiting")


@pytest.fixture
def debugger() -> Debugger:
    story = Story()
    scheduler = Scheduler(
        default_config(),
        Registry(IN_TREE),
        cluster=DiscardingApi(),
        background=NoBackground(),
        clock=VirtualClock(),
        features=FeatureGates(),
        observers=(story,),
    )
    scheduler.handlers.apply(None, NODE)
    scheduler.handlers.pod_added(PLACED)
    scheduler.handlers.pod_added(WAITING)
    return Debugger(scheduler, ApiClient(Connection("http://127.0.0.1:1", "a test")), story)


def test_nodes_and_waiting_pods_are_dumped_with_their_story(debugger: Debugger, logged: list[Any]) -> None:
    debugger.dump()
    assert logged[0]["nodes"].startswith("n: requested {")
    assert "pods [default/placed]" in logged[0]["nodes"]
    assert logged[1]["pods"] == "default/waiting: active, attempts 0, rejected by []: active (UnscheduledPodAdd)"


def test_matching_cache_is_logged(debugger: Debugger, logged: list[Any]) -> None:
    debugger.compare([NODE], [PLACED, WAITING, make_pod("others", scheduler_name="other")])
    assert [(line["event"], line["count"]) for line in logged] == [
        ("cache comparer: nodes agree with the API", 1),
        ("cache comparer: pods agree with the API", 2),
    ]


def test_missing_and_redundant_objects_are_named(debugger: Debugger, logged: list[Any]) -> None:
    debugger.compare([make_node("m")], [WAITING, make_pod("unheard", node="m")])
    assert [(line["event"], line["missed"], line["redundant"]) for line in logged] == [
        ("cache mismatch in nodes", "m", "n"),
        ("cache mismatch in pods", "default/unheard", "default/placed"),
    ]
