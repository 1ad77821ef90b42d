from typing import Any

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import build_cluster_input
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import BindPlugin, PermitPlugin, Plugin, Wait
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

ROOM = {"cpu": 4, "memory": "8Gi", "pods": 20}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": ROOM}}
SPEC = {"containers": [{"name": "c", "image": "x:1"}]}


class TimesOut(PermitPlugin):
    def permit(self, *_: Any) -> Wait:
        return Wait(10.0)


class InPairs(PermitPlugin):
    """Delays every other pod until the next one arrives."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, _cycle: object, _pod: Pod, _node: str) -> Wait | None:
        waiting = self._handle.waiting_pods()
        for waiting_pod in waiting:
            waiting_pod.allow(self.name)
        return None if waiting else Wait(10.0)


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


def one_pass(plugin: type[Plugin], *names: str) -> list[Decision]:
    return DryRun(build_cluster_input(pods(*names)), policy_with(plugin)).run()


def test_one_pass_waits_on_permit() -> None:
    (decision,) = one_pass(TimesOut, "a")
    assert (decision.result, decision.node, decision.message) == ("unschedulable", "", TIMED_OUT)
    assert decision.unschedulable_plugins == ("TimesOut",)


def test_one_pass_releases_waiting_pods_with_later_pods() -> None:
    results = {decision.pod: decision.result for decision in one_pass(InPairs, "a", "b", "c")}
    assert results == {"default/a": "scheduled", "default/b": "scheduled", "default/c": "unschedulable"}
