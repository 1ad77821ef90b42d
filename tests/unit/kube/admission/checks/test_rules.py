"""Rules of single resources: metadata, claims, volumes, classes, nodes and slices."""

from typing import Any

import pytest

from moorage.kube.admission.checks.rules import rule_problems
from moorage.kube.resources import Resources

RESOURCES = {item.storage: item for item in Resources()}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
OBJECTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a valid object": ("configmaps", {"metadata": {"name": "a", "ownerReferences": [OWNER]}}, []),
    "no name": (
        "configmaps",
        {"metadata": {}},
        ["metadata.name: Required value: name or generateName is required"],
    ),
    "node selectors of slices without terms": (
        "resourceslices.resource.k8s.io",
        {
            "metadata": {"name": "a"},
            "spec": {"nodeSelector": {}, "devices": [{"nodeSelector": {"nodeSelectorTerms": []}}]},
        },
        [
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.devices[0].nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
        ],
    ),
    "an invalid topology of storage capacity": (
        "csistoragecapacities.storage.k8s.io",
        {
            "metadata": {"name": "a"},
            "nodeTopology": {"matchExpressions": [{"key": "zone", "operator": "Is"}]},
        },
        ['nodeTopology.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator'],
    ),
    "a slash in the name of a role": (
        "roles.rbac.authorization.k8s.io",
        {"metadata": {"name": "a/b"}},
        ["metadata.name: Invalid value: \"a/b\": may not be '.' or '..', nor contain '/' or '%'"],
    ),
    "a dot in the name of a namespace": (
        "namespaces",
        {"metadata": {"name": "a.b"}},
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    "finalizers without a domain": (
        "configmaps",
        {"metadata": {"name": "a", "finalizers": ["orphan", "example.org/f", "mine"]}},
        [
            'metadata.finalizers[2]: Invalid value: "mine": '
            "name is neither a standard finalizer name nor is it fully qualified"
        ],
    ),
    "an owner without fields": (
        "configmaps",
        {"metadata": {"name": "a", "ownerReferences": [{}]}},
        [
            'metadata.ownerReferences[0].apiVersion: Invalid value: "": version must not be empty',
            'metadata.ownerReferences[0].kind: Invalid value: "": must not be empty',
            'metadata.ownerReferences[0].name: Invalid value: "": must not be empty',
            "metadata.ownerReferences[0].uid: Required value: must not be empty",
        ],
    ),
    "a device of a container without its volume": (
        "pods",
        {
            "spec": {
                **{"restartPolicy": "Always", "dnsPolicy": "Default"},
                "containers": [
                    {
                        **{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"},
                        "volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}],
                    }
                ],
            }
        },
        ['spec.containers[0].volumeDevices[0].name: Not found: "disk"'],
    ),
    "a valid claim": ("persistentvolumeclaims", {"spec": CLAIM}, []),
    "a claim without fields": (
        "persistentvolumeclaims",
        {},
        [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    ),
    "a claim of nothing, with an unknown mode": (
        "persistentvolumeclaims",
        {"spec": {"accessModes": ["Read"], "resources": {"requests": {"storage": "0"}}}},
        [
            'spec.accessModes: Unsupported value: "Read": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"',
            'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        ],
    ),
    "a valid volume": ("persistentvolumes", {"spec": VOLUME}, []),
    "a volume without a type": (
        "persistentvolumes",
        {"spec": {key: VOLUME[key] for key in ("accessModes", "capacity")}},
        ["spec: Required value: must specify a volume type"],
    ),
    "a volume with other capacities": (
        "persistentvolumes",
        {"spec": VOLUME | {"capacity": {"storage": "-1", "cpu": "1"}}},
        [
            'spec.capacity: Unsupported value: {"storage":"-1","cpu":"1"}: supported values: "storage"',
            'spec.capacity[storage]: Invalid value: "-1": must be greater than zero',
        ],
    ),
    "a storage class without fields": (
        "storageclasses.storage.k8s.io",
        {"reclaimPolicy": "Keep", "volumeBindingMode": "Later"},
        [
            "provisioner: Required value",
            'reclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Retain"',
            'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
        ],
    ),
    "a node with a taint without effect and negative CPU": (
        "nodes",
        {"spec": {"taints": [{"key": "a"}]}, "status": {"capacity": {"cpu": "-1"}}},
        [
            "metadata.taints[0].effect: Required value",
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a system class of a user": (
        "priorityclasses.scheduling.k8s.io",
        {"metadata": {"name": "system-mine"}, "value": 2_000_000_000, "preemptionPolicy": "Maybe"},
        [
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: system-mine is not a known system priority class",
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            'preemptionPolicy: Unsupported value: "Maybe": supported values: "Never", "PreemptLowerPriority"',
        ],
    ),
    "an attribute without a value": (
        "resourceslices.resource.k8s.io",
        {"spec": {"devices": [{"attributes": {"a": {"int": 1}, "b": {}}}]}},
        [
            'spec.devices[0].attributes[b]: Invalid value: "": must specify one of: `int`, `bool`, `string`, '
            "`version`, `ints`, `bools`, `strings`, `versions`"
        ],
    ),
}


@pytest.mark.parametrize(("storage", "data", "want"), OBJECTS.values(), ids=OBJECTS)
def test_problems_of_an_object(storage: str, data: dict[str, Any], want: list[str]) -> None:
    errors = rule_problems(RESOURCES[storage], {"metadata": {"name": "a"}, **data})
    assert [f"{error.field}: {error.message}" for error in errors] == want
