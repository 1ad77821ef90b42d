"""Groups that cannot start because of a typo: a simulation ends and reports the problem for every pod."""

from typing import Any

import yaml

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import cluster_from
from moorage.cluster.simulation.simulation import simulate
from moorage.kube.features import FeatureGates
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

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


CLUSTER = cluster_from(
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
