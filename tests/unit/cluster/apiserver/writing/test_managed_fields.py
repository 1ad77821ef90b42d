from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    MERGE,
    ApiHarness,
    deployment,
)


def test_manager_that_scales_owns_the_replicas():
    client = ApiHarness()
    path = f"{DEPLOYMENTS}/shop?fieldManager=me"
    desired = deployment()
    desired["spec"]["replicas"] = 1
    client.request("PATCH", path, desired, content_type=APPLY, want=201)
    client.request("PATCH", f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    error = client.request("PATCH", path, desired, content_type=APPLY, want=409)
    assert 'conflict with "tester"' in error["message"]
