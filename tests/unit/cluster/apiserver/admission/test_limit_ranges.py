from typing import Any

import pytest
from tests.support.api import PODS, ApiHarness, Data, pod

LIMITS = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def limit_range(kind: str = "Container", **rules: Data) -> Data:
    item = {"type": kind, **rules}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual"}, "spec": {"limits": [item]}}


def sized(*containers: Data, first: Data | None = None) -> Data:
    def container(name: str, resources: Data) -> Data:
        return {"name": name, "image": "web:1", "resources": resources}

    spec: Data = {"containers": [container(f"c{number}", item) for number, item in enumerate(containers)]}
    if first is not None:
        spec["initContainers"] = [container("first", first)]
    return pod("web", **spec)


def both(**amounts: str) -> Data:
    return {"requests": amounts, "limits": amounts}


def claim(storage: str) -> Data:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}, "spec": spec}


PVC = "PersistentVolumeClaim"
CASES: dict[str, tuple[Data, str, Data, str]] = {
    "just enough": (limit_range(min={"cpu": "50m"}), PODS, sized(both(cpu="50m")), ""),
    "too little": (
        limit_range(min={"cpu": "50m"}),
        PODS,
        sized(both(cpu="10m")),
        'pods "web" is forbidden: minimum cpu usage per Container is 50m, but request is 10m',
    ),
    "a limit is a request, too": (limit_range(min={"cpu": "50m"}), PODS, sized({"limits": {"cpu": "50m"}}), ""),
    "other resources do not matter": (
        limit_range("Pod", min={"cpu": "50m"}),
        PODS,
        sized({"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}),
        "",
    ),
    "too much": (
        limit_range(max={"cpu": "500m"}),
        PODS,
        sized(both(cpu="600m")),
        'pods "web" is forbidden: maximum cpu usage per Container is 500m, but limit is 600m',
    ),
    "too much in an init container": (
        limit_range(max={"cpu": "500m"}),
        PODS,
        sized(both(cpu="1m"), first=both(cpu="600m")),
        'pods "web" is forbidden: maximum cpu usage per Container is 500m, but limit is 600m',
    ),
    "several problems together": (
        limit_range(max={"cpu": "500m"}, min={"memory": "1Mi"}),
        PODS,
        sized(both(cpu="600m", memory="1k")),
        'pods "web" is forbidden: [minimum memory usage per Container is 1Mi, but request is 1k, '
        "maximum cpu usage per Container is 500m, but limit is 600m]",
    ),
    "a pod is the sum of its containers": (
        limit_range("Pod", max={"cpu": "500m"}),
        PODS,
        sized(both(cpu="300m"), both(cpu="300m")),
        'pods "web" is forbidden: maximum cpu usage per Pod is 500m, but limit is 600m',
    ),
    "a pod without resources": (
        limit_range("Pod", max={"cpu": "500m"}, min={"cpu": "1m"}),
        PODS,
        sized({}),
        'pods "web" is forbidden: [minimum cpu usage per Pod is 1m.  No request is specified, '
        "maximum cpu usage per Pod is 500m.  No limit is specified]",
    ),
    "init containers of a pod run before the others": (
        limit_range("Pod", max={"cpu": "500m"}),
        PODS,
        sized(both(cpu="300m"), first=both(cpu="500m")),
        "",
    ),
    "a limit too far above the request": (
        limit_range(maxLimitRequestRatio={"cpu": "2"}),
        PODS,
        sized({"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}}),
        'pods "web" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000',
    ),
    "twice as much": (
        limit_range(maxLimitRequestRatio={"cpu": "2"}),
        PODS,
        sized({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}),
        "",
    ),
    "a claim that is too small": (
        limit_range(PVC, min={"storage": "1Gi"}),
        CLAIMS,
        claim("1Mi"),
        'persistentvolumeclaims "disk" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, '
        "but request is 1Mi",
    ),
    "a claim that is too large": (
        limit_range(PVC, max={"storage": "1Gi"}),
        CLAIMS,
        claim("2Gi"),
        'persistentvolumeclaims "disk" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, '
        "but request is 2Gi",
    ),
    "a claim that fits": (limit_range(PVC, min={"storage": "1Gi"}, max={"storage": "2Gi"}), CLAIMS, claim("2Gi"), ""),
}


@pytest.mark.parametrize(("rule", "path", "obj", "problem"), CASES.values(), ids=CASES)
def test_limits_of_a_namespace_are_enforced(rule: Data, path: str, obj: Data, problem: str) -> None:
    client = ApiHarness()
    client.create(LIMITS, rule)
    answer: Any = client.request("POST", path, obj, want=403 if problem else 201)
    assert answer.get("message", "") == problem


def test_limit_range_gets_defaults():
    spec = limit_range(max={"cpu": "500m"}, min={"cpu": "50m", "memory": "1Mi"}, default={"memory": "2Mi"})
    (item,) = ApiHarness().create(LIMITS, spec)["spec"]["limits"]
    assert item["default"] == {"cpu": "500m", "memory": "2Mi"}
    assert item["defaultRequest"] == {"cpu": "500m", "memory": "2Mi"}


def test_rejected_pod_is_not_cached():
    client = ApiHarness()
    client.create(LIMITS, limit_range(max={"cpu": "500m"}))
    for _ in range(2):
        client.request("POST", PODS, sized(both(cpu="1")), want=403)
    client.request("DELETE", f"{LIMITS}/usual")
    client.create(PODS, sized(both(cpu="1")))
