"""Defaults of typed objects that scheduling notices."""

from typing import Any

import msgspec
import pytest

from moorage.kube.admission.defaults import with_defaults
from moorage.kube.api.codec import decode, to_data
from moorage.kube.api.kinds import BY_NAME

OBJECTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "requests follow from limits": (
        "Pod",
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1u"}, "requests": {"cpu": "1"}}}]}},
        {
            "spec": {
                "containers": [
                    {
                        "resources": {
                            "limits": {"cpu": "2", "memory": "1m"},
                            "requests": {"cpu": "1", "memory": "1m"},
                        }
                    }
                ],
            },
        },
    ),
    "ports on the host's network are host ports": (
        "Pod",
        {"spec": {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}},
        {
            "spec": {
                "hostNetwork": True,
                "containers": [{"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}],
            }
        },
    ),
    "a negative grace period is one second": (
        "Pod",
        {"spec": {"terminationGracePeriodSeconds": -5}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
    ),
    "a node has its capacity, rounded up": (
        "Node",
        {"status": {"capacity": {"cpu": "1", "memory": "100n"}}},
        {"status": {"capacity": {"cpu": "1", "memory": "100n"}, "allocatable": {"cpu": "1", "memory": "1m"}}},
    ),
    "a namespace has its name as a label": (
        "Namespace",
        {"metadata": {"name": "n"}},
        {"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}},
    ),
    "a volume is a pending file system": (
        "PersistentVolume",
        {},
        {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
    ),
    "a bound block claim is unchanged": (
        "PersistentVolumeClaim",
        {"spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}},
        {"spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}},
    ),
    "a priority class preempts": ("PriorityClass", {}, {"preemptionPolicy": "PreemptLowerPriority"}),
    "a storage class binds immediately": ("StorageClass", {}, {"volumeBindingMode": "Immediate"}),
    "a driver attaches": (
        "CSIDriver",
        {},
        {"spec": {"attachRequired": True, "storageCapacity": False, "preventPodSchedulingIfMissing": False}},
    ),
    "a claim requests one device": (
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}},
        {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "a",
                            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                        }
                    ]
                }
            }
        },
    ),
    "a replication controller selects its template": (
        "ReplicationController",
        {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
        {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}, "selector": {"a": "b"}}},
    ),
}


def expected_part(actual: Any, want: Any) -> Any:
    """Reduce an object to the fields that a test names."""
    if isinstance(want, dict) and isinstance(actual, dict):
        return {key: expected_part(actual.get(key), content) for key, content in want.items()}
    if isinstance(want, list) and isinstance(actual, list) and len(want) == len(actual):
        return [expected_part(*pair) for pair in zip(actual, want, strict=True)]
    return actual


@pytest.mark.parametrize(("kind", "content", "want"), OBJECTS.values(), ids=OBJECTS)
def test_defaults(kind: str, content: dict[str, Any], want: dict[str, Any]) -> None:
    obj = with_defaults(decode(BY_NAME[kind].type, msgspec.json.encode(content)))
    actual = msgspec.json.decode(msgspec.json.encode(to_data(obj)))
    assert expected_part(actual, want) == want
    assert with_defaults(obj) == obj, "defaults are set once"


def test_kind_without_defaults_remains_the_same_object() -> None:
    service = BY_NAME["Service"].type()
    assert with_defaults(service) is service
