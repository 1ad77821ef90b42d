"""Admission of pods: priorities, merged label keys, pod-level requests and disabled features."""

from typing import Any

import msgspec
import pytest

from moorage.common.errors import InputError
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.codec import decode
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates


def make_class(name: str, value: int, **fields: Any) -> PriorityClass:
    return PriorityClass(ObjectMeta(name=name), value=value, **fields)


CLASSES = (
    make_class("high", 10, preemption_policy="Never"),
    make_class("usual", 3, global_default=True),
    make_class("other", 5, global_default=True),
)


def admit(spec: dict[str, Any], gates: str = "", **metadata: Any) -> Pod:
    pod = decode(Pod, msgspec.json.encode({"metadata": metadata, "spec": spec}))
    return PodAdmission(CLASSES, FeatureGates.parse(gates)).admit(pod)


PRIORITIES: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "the lowest default class": ({}, (3, "usual", "PreemptLowerPriority")),
    "a named class": ({"priorityClassName": "high"}, (10, "high", "Never")),
    "a built-in class": (
        {"priorityClassName": "system-node-critical"},
        (2_000_001_000, "system-node-critical", "PreemptLowerPriority"),
    ),
    "a live pod with a deleted class": (
        {"priority": 7, "priorityClassName": "gone"},
        (7, "gone", "PreemptLowerPriority"),
    ),
}


@pytest.mark.parametrize(("spec", "want"), PRIORITIES.values(), ids=PRIORITIES)
def test_priority(spec: dict[str, Any], want: tuple[int, str, str]) -> None:
    admitted = admit(spec).spec
    assert (admitted.priority, admitted.priority_class_name, admitted.preemption_policy) == want


def test_unknown_class_suggests_a_known_one() -> None:
    with pytest.raises(InputError, match="no PriorityClass is named 'hihg'\n  hint: did you mean 'high'"):
        admit({"priorityClassName": "hihg"})


def test_label_keys_are_merged_into_selectors_of_labels_that_the_pod_has() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["app", "none"],
        "mismatchLabelKeys": ["team"],
    }
    constraint = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "web", "team": "a"}
    pod = admit({"affinity": affinity, "topologySpreadConstraints": [constraint]}, labels=labels)
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_affinity is not None
    selector = pod.spec.affinity.pod_affinity.required[0].label_selector
    assert selector is not None
    expressions = [(item.key, item.operator, item.values) for item in selector.match_expressions]
    assert expressions == [("app", "In", ("web",)), ("team", "NotIn", ("a",))]
    spread = pod.spec.topology_spread_constraints[0].label_selector
    assert spread is not None
    assert [item.key for item in spread.match_expressions] == ["app"]


def test_pod_level_requests_follow_from_limits_and_containers() -> None:
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "4Mi"}}}
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    init = {"name": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "containers": [container],
        "initContainers": [sidecar, init],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    resources = admit(spec).spec.resources
    assert resources is not None
    assert resources.requests == {"memory": "1Gi", "hugepages-2Mi": 4 << 20, "cpu": "1500000000n"}
    assert resources.limits == {"hugepages-2Mi": 4 << 20, "memory": "1Gi"}


def test_before_the_fix_only_pods_with_pod_level_limits_get_requests() -> None:
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    old = "PodLevelResourcesFixDefaulting=false"
    without_limits = {"containers": [container], "resources": {"requests": {"memory": "1Gi"}}}
    with_limits = {"containers": [container], "resources": {"limits": {"memory": "1Gi"}}}
    requests = [
        (admit(spec, gates).spec.resources or pytest.fail("no resources")).requests
        for spec in (without_limits, with_limits)
        for gates in (old, "")
    ]
    completed = {"cpu": 1, "memory": "1Gi"}
    assert requests == [{"memory": "1Gi"}, completed, completed, completed]


@pytest.mark.release("1.37")
def test_fields_of_disabled_features_are_dropped() -> None:
    container = {
        "name": "a",
        "restartPolicyRules": [{"action": "Restart"}],
        "volumeMounts": [{"bindMountOptions": ["x"]}],
    }
    spec = {"containers": [container], "resources": {"limits": {"cpu": 1}}, "schedulingGroup": {"podGroupName": "g"}}
    off = (
        "PodLevelResources=false,PodLevelResourcesFixDefaulting=false,PodLevelResourcesFixKubeletQOSClass=false,"
        "InPlacePodLevelResourcesVerticalScaling=false,ContainerRestartRules=false,"
        "RestartAllContainersOnContainerExits=false"
    )
    dropped = admit(spec, off).spec
    assert (dropped.resources, dropped.scheduling_group) == (None, None)
    assert dropped.containers[0].restart_policy_rules == ()
    assert dropped.containers[0].volume_mounts[0].bind_mount_options == ()
    stored = admit(spec, "VolumeBindMountOptions=true,GenericWorkload=true").spec
    assert stored.resources is not None
    assert stored.scheduling_group is not None
    assert stored.containers[0].restart_policy_rules
    assert stored.containers[0].volume_mounts[0].bind_mount_options == ("x",)


def test_admission_is_idempotent() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": 1}}}], "resources": {"limits": {"cpu": 2}}}
    pod = admit(spec)
    assert PodAdmission(CLASSES, FeatureGates()).admit(pod) == pod
