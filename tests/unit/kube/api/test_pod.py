"""Values derived from a pod."""

from typing import Any

import msgspec
import pytest

from moorage.kube.api.codec import decode
from moorage.kube.api.pod import Pod

META = {"name": "training", "namespace": "team"}
GROUPS_OF_PODS = {
    "none": ({}, None),
    "an empty one": ({"schedulingGroup": {}}, None),
    "one by name": ({"schedulingGroup": {"podGroupName": "g"}}, "team/g"),
}


@pytest.mark.parametrize(("spec", "want"), GROUPS_OF_PODS.values(), ids=GROUPS_OF_PODS)
def test_the_group_of_a_pod(spec: dict[str, Any], want: str | None) -> None:
    assert decode(Pod, msgspec.json.encode({"metadata": META, "spec": spec})).group_key == want
