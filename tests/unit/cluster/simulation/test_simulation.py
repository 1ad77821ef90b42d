"""Results of simulations: failed bindings, groups that cannot fit, and waiting pods."""

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from moorage.cluster.controllers.actions import ControllerAction, Patch
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import build_cluster_input
from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation, simulate
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.codec import convert
from moorage.kube.features import FeatureGates
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.framework.plugin import BindPlugin, PermitPlugin, Plugin, PreBindPlugin, Wait
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

ROOM = {"cpu": 4, "memory": "8Gi", "pods": 20}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": ROOM}}
SPEC = {"containers": [{"name": "c", "image": "x:1"}]}


class TimesOut(PermitPlugin):
    def permit(self, *_: Any) -> Wait:
        return Wait(10.0)


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


class BindsNothing(BindPlugin):
    async def bind(self, *_: Any) -> None:
        return None


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
    "a pre-bind plugin that rejects": (Unprepared, "unschedulable", "the volume is not there"),
    "a bind that fails": (CannotBind, "error", "the line is dead"),
    "a bind that raises": (RaisesInBind, "error", "the line is dead"),
    "a bind that does nothing": (BindsNothing, "error", "returned None, but did not bind the pod to n: return await"),
}


@pytest.mark.parametrize(("plugin", "result", "message"), CASES.values(), ids=CASES)
def test_until_quiet(plugin: type[Plugin], result: str, message: str) -> None:
    run = simulate(build_cluster_input(pods("a")), policy_with(plugin))

    (decision,) = run.decisions
    assert (decision.result, decision.node) == (result, "")
    assert message in decision.message
    assert run.timeline[0].bound is None


@pytest.mark.parametrize("plugin", [CannotBind, RaisesInBind])
def test_bind_plugin_without_configuration_is_called(plugin: type[Plugin]) -> None:
    run = simulate(build_cluster_input(pods("a")), load_policy(collect_plugins([plugin]), enabled=[plugin]))
    assert [(decision.result, decision.node) for decision in run.decisions] == [("error", "")]


def test_the_time_of_bindings_that_fail_has_passed() -> None:
    run = simulate(build_cluster_input(pods("a")), policy_with(CannotBind))
    assert run.decisions[0].attempts > 3
    assert run.seconds > 1 + 2 + 4, "as long as its penalties took"
    assert run.timeline[0].waited == run.seconds


def test_a_pod_that_still_waits_when_time_is_up_is_not_scheduled() -> None:
    run = simulate(build_cluster_input(pods("a")), policy_with(TimesOut), until=5.0)

    (decision,) = run.decisions
    assert decision.result == "unschedulable"
    assert decision.message == "the binding to n was still in progress when the simulation ended"
    assert run.seconds == 5.0


GATES = FeatureGates(dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True))
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
}
POLICY = load_policy(collect_plugins(), yaml.safe_dump(CONFIG), features=GATES)


def thing(kind: str, name: str, version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def member(name: str, group: str, **spec: Any) -> dict[str, Any]:
    return thing("Pod", name, spec={"schedulingGroup": {"podGroupName": group}, "containers": [{"name": "c"}], **spec})


def group(name: str, min_count: int, **spec: Any) -> dict[str, Any]:
    policy = {"gang": {"minCount": min_count}}
    return thing("PodGroup", name, "scheduling.k8s.io/v1alpha3", spec={"schedulingPolicy": policy, **spec})


def circle(name: str, parent: str) -> dict[str, Any]:
    spec = {**under(parent), "schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    return thing("CompositePodGroup", name, "scheduling.k8s.io/v1alpha3", spec=spec)


def under(parent: str) -> dict[str, Any]:
    reference = {"workloadName": "w", "templateName": "t"}
    return {"parentCompositePodGroupName": parent, "workloadRef": reference}


CLUSTER = build_cluster_input(
    [
        thing("Node", "n", status={"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 20}}),
        member("of-no-group", "nowhere"),
        group("few", 5),
        member("one-of-five", "few"),
        group("two", 2),
        member("of-this-profile", "two"),
        member("of-that-profile", "two", schedulerName="other"),
        circle("ring-a", "ring-b"),
        circle("ring-b", "ring-a"),
        group("in-the-ring", 1, **under("ring-a")),
        member("of-the-ring", "in-the-ring"),
        thing("Pod", "alone", spec={"containers": [{"name": "c"}]}),
    ],
    features=GATES,
)
WANTED = {
    "alone": "scheduled",
    "of-no-group": "incomplete",
    "one-of-five": "gated",
    "of-this-profile": "error",
    "of-that-profile": "error",
    "of-the-ring": "incomplete",
}


def results(decisions: list[Decision]) -> dict[str, str]:
    return {decision.pod.removeprefix("default/"): str(decision.result) for decision in decisions}


def test_in_one_pass() -> None:
    assert results(DryRun(CLUSTER, POLICY).run()) == WANTED


def test_in_virtual_time() -> None:
    run = simulate(CLUSTER, POLICY)

    assert results(run.decisions) == WANTED
    assert run.is_quiet
    assert run.seconds < 600, "a group that fails for ever is not waited for"
    (wrong,) = {decision.message for decision in run.decisions if decision.result == "error"}
    assert "should have the same .spec.schedulerName" in wrong


class Restless(BaseController):
    """Writes another value each time."""

    name = "restless"
    kinds = (PodDisruptionBudget,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        budget = cache[PodDisruptionBudget].get(key)
        assert budget is not None
        yield Patch(budget, {"metadata": {"annotations": {"now": str(self._clock.now())}}})


def test_simulation_stops_when_controllers_write_without_progress() -> None:
    clock = VirtualClock()

    async def run() -> tuple[bool, float]:
        cluster = SimulatedCluster(clock, controllers=(Restless(clock),))
        simulation = Simulation(cluster, load_policy(collect_plugins()))
        simulation.load([convert(PodDisruptionBudget, {"metadata": {"name": "b", "namespace": "default"}})])
        await simulation.offline.start()
        start = clock.now()
        is_quiet = await simulation.run_until_quiet()
        await simulation.offline.close()
        return is_quiet, clock.now() - start

    is_quiet, seconds = run_virtual(run(), clock)
    assert not is_quiet
    assert seconds < 3600
