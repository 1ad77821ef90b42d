"""Admission of pods that are only tried out."""

import pytest

from moorage.cluster.files.admitting import AdmissionCheck
from moorage.common.errors import Forbidden
from moorage.kube.features import FeatureGates

QUOTA = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}}


def test_classes_that_were_not_read_do_not_reject_a_pod() -> None:
    check = AdmissionCheck(FeatureGates(), [QUOTA])
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"priorityClassName": "high", "runtimeClassName": "kata", "containers": [container]}
    first, second = (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        for name in ("a", "b")
    )
    assert check.create(first).data["spec"]["priorityClassName"] == "high"
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        check.create(second)
