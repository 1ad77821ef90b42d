"""Volumes that do not limit placement."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from moorage.kube.api.codec import decode
from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import Volume
from moorage.testing import make_pod

CLAIM_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "db"}}, "spec": {"storageClassName": "fast"}}
PLAIN: dict[str, tuple[dict[str, Any], bool]] = {
    "a volume without a source": ({}, True),
    "a projected token": ({"projected": {"sources": []}}, True),
    "a claim": ({"persistentVolumeClaim": {"claimName": "data"}}, False),
    "an ephemeral claim": ({"ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}, False),
    "an inline CSI volume": ({"csi": {"driver": "x"}}, False),
}


@pytest.mark.parametrize(("source", "want"), PLAIN.values(), ids=PLAIN)
def test_plain_volumes_hold_no_storage(source: dict[str, Any], want: bool) -> None:
    volume = decode(Volume, msgspec.json.encode({"name": "v", **source}))
    assert volume.is_plain is want
    assert Pod(spec=replace(make_pod().spec, volumes=(volume,))).shape.holds_storage is not want
