"""The messages to the shadow: objects arrive unchanged."""

from typing import Any

import msgspec
import pytest
from tests.support.generated_objects import objects
from tests.support.ticketing import TICKETS

from moorage.common.child_process import LENGTH, encode_frame
from moorage.insight.shadow.messages import Message, ObjectState, encode_object
from moorage.kube.api.codec import UNREADABLE, convert, decode
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.kinds import BY_NAME, Kind
from moorage.kube.api.meta import KubeObject

KINDS = [kind for kind in BY_NAME.values() if kind.has_struct]
DEPLOYED: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"template": {"spec": {"containers": [{"name": "a\u00e9"}]}}},
    "status": {"replicas": 3, "conditions": []},
}
QUOTA = custom_kind("Quota", "quotas", "shadow.example.org/v1")


def received(obj: KubeObject) -> KubeObject:
    """Return an object after its way through a frame."""
    message = msgspec.msgpack.decode(encode_frame(encode_object(obj))[LENGTH:], type=Message)
    assert isinstance(message, ObjectState)
    return msgspec.json.decode(message.json, type=type(obj))


def readable(kind: Kind) -> list[KubeObject]:
    """Return the generated objects of a kind that an API server could send."""
    results = []
    for _, content in objects(kind):
        try:
            results.append(convert(kind.type, content))
        except UNREADABLE:
            continue
    return results


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.full_name)
def test_object_of_every_kind_arrives_unchanged(kind: Kind) -> None:
    generated = readable(kind)
    assert generated
    for obj in generated:
        assert received(obj) == obj


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.type.holds_json], ids=lambda kind: kind.full_name)
def test_workload_arrives_with_template_and_status(kind: Kind) -> None:
    workload = received(decode(kind.type, msgspec.json.encode(DEPLOYED)))
    assert workload.spec.template == DEPLOYED["spec"]["template"]  # type: ignore[attr-defined]
    assert workload.status == DEPLOYED["status"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [QUOTA, TICKETS], ids=["plain data", "typed"])
def test_custom_object_arrives_unchanged(kind: Kind) -> None:
    obj = convert(kind.type, {"metadata": {"name": "ads"}, "spec": {"approved": True, "pods": 2**70, "shares": [0.5]}})
    assert received(obj) == obj
