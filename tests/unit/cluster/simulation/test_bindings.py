"""A pod that does not get bound is not called scheduled, whatever became of it after its node was chosen."""

from typing import Any

import pytest

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import cluster_from
from moorage.cluster.simulation.simulation import simulate
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import BindPlugin, PermitPlugin, Plugin, PreBindPlugin, Wait
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

ROOM = {"cpu": 4, "memory": "8Gi", "pods": 20}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": ROOM}}
SPEC = {"containers": [{"name": "c", "image": "x:1"}]}


class TimesOut(PermitPlugin):
    def permit(self, *_: Any) -> Wait:
        return Wait(10.0)


class InPairs(PermitPlugin):
    """Holds every other pod back until the next one has come."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, _cycle: object, _pod: Pod, _node: str) -> Wait | None:
        waiting = self._handle.waiting_pods()
        for waiting_pod in waiting:
            waiting_pod.allow(self.name)
        return None if waiting else Wait(10.0)


class Unprepared(PreBindPlugin):
    def pre_bind_pre_flight(self, *_: Any) -> None:
        return None

    async def pre_bind(self, *_: Any) -> Status:
        return Status.unschedulable("the volume is not there")


class CannotBind(BindPlugin):
    async def bind(self, *_: Any) -> Status:
        return Status.error("the line is dead")


class RaisesInBind(BindPlugin):
    async def bind(self, *_: Any) -> Status:
        raise ValueError("the line is dead")


def policy_with(plugin: type[Plugin]) -> Policy:
    point = "bind" if issubclass(plugin, BindPlugin) else "multiPoint"
    plugins = f"{{{point}: {{enabled: [{{name: {plugin.name}}}]}}}}"
    if point == "bind":
        plugins = f"{{bind: {{enabled: [{{name: {plugin.name}}}], disabled: [{{name: DefaultBinder}}]}}}}"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return load_policy(collect_plugins([plugin]), f"{head}profiles: [{{plugins: {plugins}}}]")


def pods(*names: str) -> list[dict[str, Any]]:
    return [NODE, *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": SPEC} for name in names)]


TIMED_OUT = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin TimesOut."
CASES: dict[str, tuple[type[Plugin], str, str]] = {
    "a wait on permit that times out": (TimesOut, "unschedulable", TIMED_OUT),
    "a pre-bind plugin that refuses": (Unprepared, "unschedulable", "the volume is not there"),
    "a bind that fails": (CannotBind, "error", "the line is dead"),
    "a bind that raises": (RaisesInBind, "error", "the line is dead"),
}


@pytest.mark.parametrize(("plugin", "result", "message"), CASES.values(), ids=CASES)
def test_until_quiet(plugin: type[Plugin], result: str, message: str) -> None:
    run = simulate(cluster_from(pods("a")), policy_with(plugin))

    (decision,) = run.decisions
    assert (decision.result, decision.node) == (result, "")
    assert message in decision.message
    assert run.timeline[0].bound is None


@pytest.mark.parametrize("plugin", [CannotBind, RaisesInBind])
def test_bind_plugin_without_configuration_is_called(plugin: type[Plugin]) -> None:
    run = simulate(cluster_from(pods("a")), load_policy(collect_plugins([plugin]), enabled=[plugin]))
    assert [(decision.result, decision.node) for decision in run.decisions] == [("error", "")]


def test_the_time_of_bindings_that_fail_has_passed() -> None:
    run = simulate(cluster_from(pods("a")), policy_with(CannotBind))
    assert run.decisions[0].attempts > 3
    assert run.seconds > 1 + 2 + 4, "as long as its penalties took"
    assert run.timeline[0].waited == run.seconds


def one_pass(plugin: type[Plugin], *names: str) -> list[Decision]:
    return DryRun(cluster_from(pods(*names)), policy_with(plugin)).run()


def test_one_pass_waits_on_permit() -> None:
    (decision,) = one_pass(TimesOut, "a")
    assert (decision.result, decision.node, decision.message) == ("unschedulable", "", TIMED_OUT)
    assert decision.unschedulable_plugins == ("TimesOut",)


def test_one_pass_releases_waiting_pods_with_later_pods() -> None:
    results = {decision.pod: decision.result for decision in one_pass(InPairs, "a", "b", "c")}
    assert results == {"default/a": "scheduled", "default/b": "scheduled", "default/c": "unschedulable"}


def test_a_pod_that_still_waits_when_time_is_up_is_not_scheduled() -> None:
    run = simulate(cluster_from(pods("a")), policy_with(TimesOut), until=5.0)

    (decision,) = run.decisions
    assert decision.result == "unschedulable"
    assert decision.message == "the binding to n was still in progress when the simulation ended"
    assert run.seconds == 5.0
