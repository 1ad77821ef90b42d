"""Bodies as Go clients send them, written here byte by byte: every number and string, zeros included."""

import pytest

from moorage.cluster.apiserver.requests.protobuf import decode_protobuf
from moorage.common.errors import ApiError


def field(number: int, content: bytes | str | int) -> bytes:
    """Write a field as the wire has it."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


def test_binding():
    metadata = field(1, "web") + field(2, "") + field(3, "shop") + field(5, "uid-1") + field(7, 0) + field(8, b"")
    target = field(1, "Node") + field(2, "") + field(3, "n1")
    body = envelope("v1", "Binding", field(1, metadata) + field(2, target))
    assert decode_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-1"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_lease_has_times_with_microseconds():
    moment = field(1, 1_767_225_600) + field(2, 250_000_000)
    spec = field(1, "me") + field(2, 15) + field(3, moment) + field(5, 0)
    body = envelope("coordination.k8s.io/v1", "Lease", field(1, field(1, "l")) + field(2, spec))
    assert decode_protobuf(body)["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.250000Z",
        "leaseTransitions": 0,
    }


def test_maps_quantities_and_parts_that_are_inlined_in_json():
    requests = field(2, field(1, "cpu") + field(2, field(1, "100m")))
    container = field(1, "main") + field(2, "web:1") + field(8, requests)
    volume = field(1, "v") + field(2, field(1, field(1, "/data")))
    labels = field(11, field(1, "app") + field(2, "web"))
    body = envelope("v1", "Pod", field(1, field(1, "web") + labels) + field(2, field(1, volume) + field(2, container)))
    pod = decode_protobuf(body)
    assert pod["metadata"] == {"name": "web", "labels": {"app": "web"}}
    assert pod["spec"]["containers"] == [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}]
    assert pod["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/data"}}]


def test_numbers_and_names_that_share_a_field():
    port = field(2, "TCP") + field(3, 80) + field(4, field(1, 0) + field(2, 8080) + field(3, ""))
    named_port = field(2, "TCP") + field(3, 81) + field(4, field(1, 1) + field(2, 0) + field(3, "web"))
    body = envelope("v1", "Service", field(2, field(1, port) + field(1, named_port)))
    assert [item["targetPort"] for item in decode_protobuf(body)["spec"]["ports"]] == [8080, "web"]


def test_options_may_name_the_group_they_are_used_in():
    body = envelope("apps/v1", "DeleteOptions", field(1, 5) + field(4, "Background"))
    assert decode_protobuf(body)["propagationPolicy"] == "Background"


BAD = {
    "no prefix": b"{}",
    "an unknown kind": envelope("v1", "Boat", b""),
    "bytes that are not a message": envelope("v1", "Pod", b"\xff\xff"),
    "a time out of range": envelope("v1", "Pod", field(1, field(8, field(1, 2**62)))),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_invalid_protobuf_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as error:
        decode_protobuf(body)
    assert error.value.status == 400


def test_definition_has_schemas_within_schemas():
    size = field(5, "integer") + field(8, field(1, b"3"))
    words = field(5, "array") + field(24, field(1, field(5, "string")))
    object_schema = field(5, "object") + field(30, field(1, 1))
    more = field(5, "object") + field(30, field(2, field(5, "string")))
    properties = ((b"size", size), (b"words", words), (b"others", object_schema), (b"more", more))
    schema = field(5, "object") + b"".join(field(29, field(1, name) + field(2, below)) for name, below in properties)
    version = field(1, "v1") + field(2, 1) + field(3, 1) + field(4, field(1, schema))
    names = field(1, "gangs") + field(2, "") + field(4, "Gang")
    spec = field(1, "example.org") + field(3, names) + field(4, "Namespaced") + field(7, version)
    body = envelope(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", field(1, field(1, "gangs.example.org")) + field(2, spec)
    )
    (read,) = decode_protobuf(body)["spec"]["versions"]
    assert read["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "words": {"type": "array", "items": {"type": "string"}},
            "others": {"type": "object", "additionalProperties": True},
            "more": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
