"""Structs of pod groups, and the group references of pods."""

from typing import Any

import msgspec
import pytest

from moorage.kube.api.codec import decode, encode
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup, Workload

META = {"name": "training", "namespace": "team"}
SETTINGS = {
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "high",
    "priority": 100,
    "preemptionPolicy": "Never",
}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "eight"}, {"name": "net", "resourceClaimName": "fabric"}]
REFERENCE = {"workloadName": "w", "templateName": "t"}
GANG = {"gang": {"minCount": 8}}
TEMPLATE = {"name": "workers", "schedulingPolicy": GANG, "resourceClaims": CLAIMS, **SETTINGS}
CONDITION = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "observedGeneration": 2}
OBJECTS: dict[str, tuple[type[KubeObject], dict[str, Any]]] = {
    "a group of pods": (
        PodGroup,
        {
            "spec": {
                "parentCompositePodGroupName": "all",
                "workloadRef": REFERENCE,
                "schedulingPolicy": GANG,
                "resourceClaims": CLAIMS,
                **SETTINGS,
            },
            "status": {
                "conditions": [CONDITION],
                "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-x7"}],
            },
        },
    ),
    "a group of groups": (
        CompositePodGroup,
        {
            "spec": {
                "parentCompositePodGroupName": "root",
                "workloadRef": REFERENCE,
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                **SETTINGS,
            },
            "status": {"conditions": [CONDITION]},
        },
    ),
    "a workload of groups": (
        Workload,
        {"spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": [TEMPLATE]}},
    ),
    "a workload of groups of groups": (
        Workload,
        {
            "spec": {
                "compositePodGroupTemplates": [
                    {
                        "name": "outer",
                        "schedulingPolicy": {"basic": {}},
                        "compositePodGroupTemplates": [
                            {
                                "name": "inner",
                                "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                                "podGroupTemplates": [TEMPLATE],
                            }
                        ],
                    }
                ]
            }
        },
    ),
}


@pytest.mark.parametrize(("kind", "content"), OBJECTS.values(), ids=OBJECTS)
def test_every_field_survives(kind: type[KubeObject], content: dict[str, Any]) -> None:
    kind_info = BY_TYPE[kind]
    obj = decode(kind, msgspec.json.encode({"metadata": META, **content}))
    encoded = msgspec.json.decode(msgspec.json.encode(encode(obj)))
    assert encoded == {"apiVersion": kind_info.api_version, "kind": kind_info.name, "metadata": META, **content}


def test_facts_of_groups() -> None:
    group = decode(PodGroup, msgspec.json.encode({"metadata": META, **OBJECTS["a group of pods"][1]}))
    assert (group.priority, group.min_count, group.parent_key) == (100, 8, "team/all")
    assert (group.spec.topology_key, group.spec.is_disrupted_whole) == ("rack", True)
    composite = decode(CompositePodGroup, msgspec.json.encode({"metadata": META, **OBJECTS["a group of groups"][1]}))
    assert (composite.priority, composite.min_group_count, composite.parent_key) == (100, 2, "team/root")


def test_defaults_of_groups() -> None:
    plain = PodGroup()
    assert (plain.priority, plain.min_count, plain.parent_key) == (0, None, None)
    assert (plain.spec.topology_key, plain.spec.is_disrupted_whole) == (None, False)
    assert CompositePodGroup().min_group_count is None
