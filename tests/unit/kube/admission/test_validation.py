"""Validation of typed objects: the path of each problem, its text and a correction."""

from typing import Any

import msgspec
import pytest

from moorage.kube.admission.validation import find_problems
from moorage.kube.api.codec import convert, decode
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OBJECTS: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "a valid pod": ("Pod", {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}, []),
    "a quantity": (
        "Pod",
        {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}},
        [("spec.containers[0].resources.requests.cpu", "'x' is not a quantity")],
    ),
    "a negative quantity": (
        "Pod",
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "-1"}}}]}},
        [("spec.containers[0].resources.limits.cpu", "'-1' is negative")],
    ),
    "a time": (
        "Pod",
        {"metadata": {"creationTimestamp": "now"}, "status": {"startTime": "later"}},
        [("metadata.creationTimestamp", "'now' is not a time"), ("status.startTime", "'later' is not a time")],
    ),
    "a label selector": (
        "Pod",
        {"spec": {"topologySpreadConstraints": [
            {"maxSkew": 0, "whenUnsatisfiable": "Never", "minDomains": 0, "nodeTaintsPolicy": "x",
             "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]}},
        [
            ("spec.topologySpreadConstraints[0].labelSelector.matchExpressions", "a: operator 'Is' is unknown"),
            ("spec.topologySpreadConstraints[0].maxSkew", "found 0"),
            ("spec.topologySpreadConstraints[0].topologyKey", "a spread constraint needs a topology key"),
            ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "'Never' is unknown"),
            ("spec.topologySpreadConstraints[0].nodeTaintsPolicy", "'x' is unknown"),
            ("spec.topologySpreadConstraints[0].minDomains", "found 0"),
        ],
    ),
    "affinity": (
        "Pod",
        {"spec": {"affinity": {
            "podAffinity": {REQUIRED: [{}]},
            "nodeAffinity": {PREFERRED: [{"preference": {"matchExpressions": [{"key": "a", "operator": "in"}]}}]},
        }}},
        [
            (f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator", "'in' is unknown"),
            (f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight", "0 is out of range"),
            (f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey", "an affinity term needs a topology key"),
        ],
    ),
    "ports and policies": (
        "Pod",
        {"spec": {"containers": [{"ports": [{"protocol": "IP", "hostPort": 70000}]}], "preemptionPolicy": "x",
                  "tolerations": [{"operator": "exists", "effect": "x"}]}},
        [
            ("spec.containers[0].ports[0].protocol", "'IP' is unknown"),
            ("spec.containers[0].ports[0].hostPort", "70000 is out of range"),
            ("spec.tolerations[0].operator", "'exists' is unknown"),
            ("spec.tolerations[0].effect", "'x' is unknown"),
            ("spec.preemptionPolicy", "'x' is unknown"),
        ],
    ),
    "a taint": (
        "Node",
        {"spec": {"taints": [{}]}},
        [("spec.taints[0].key", "a taint needs a key"), ("spec.taints[0].effect", "'(none)' is unknown")],
    ),
    "a priority class": ("PriorityClass", {"preemptionPolicy": "x"}, [("preemptionPolicy", "'x' is unknown")]),
    "a storage class": ("StorageClass", {"volumeBindingMode": "x"}, [("volumeBindingMode", "'x' is unknown")]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "content", "want"), OBJECTS.values(), ids=OBJECTS)
def test_problems(kind: str, content: dict[str, Any], want: list[tuple[str, str]]) -> None:
    problems = [*find_problems(decode(BY_NAME[kind].type, msgspec.json.encode(content)))]
    assert [(problem.path, problem.text) for problem in problems] == want


def test_corrections_are_part_of_a_problem() -> None:
    node = decode(BY_NAME["Node"].type, b'{"spec": {"taints": [{"key": "a", "effect": "NoSchedul"}]}}')
    assert [problem.hint for problem in find_problems(node)] == ["did you mean 'NoSchedule'?"]
    node = decode(BY_NAME["Node"].type, b'{"status": {"capacity": {"cpu": "x"}}}')
    assert [problem.hint for problem in find_problems(node)] == [
        "write a number with an optional suffix, like 500m, 2, 1.5Gi or 1e3"
    ]


def test_problem_after_an_equal_valid_part_is_found() -> None:
    """Valid parts are remembered by type, so an invalid one after them must still be checked, each time."""
    valid, invalid = (
        convert(Pod, {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}})
        for cpu in ("1", "one")
    )
    found = [[problem.path for problem in find_problems(pod)] for pod in (valid, valid, invalid, invalid, valid)]
    path = ["spec.containers[0].resources.requests.cpu"]
    assert found == [[], [], path, path, []]
