"""Custom resources in and out of JSON, and error messages for plugin authors."""

import msgspec
import pytest
from msgspec.structs import replace

from moorage.kube.api.codec import decode, encode
from moorage.kube.api.custom import CustomObject, custom_kind
from moorage.kube.api.kinds import Kind, add_kind, find_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta

KIND = custom_kind("Ration", "rations", "custom.example.org/v1")
WHOLE = {
    "apiVersion": "custom.example.org/v1",
    "kind": "Ration",
    "metadata": {"name": "a", "namespace": "shop", "labels": {"team": "ads"}},
    "spec": {"limits": {"pods": 3}},
}


class Unheard(KubeObject, frozen=True):
    """A struct without a kind."""


def ration() -> CustomObject:
    obj = decode(KIND.type, msgspec.json.encode(WHOLE))
    assert isinstance(obj, CustomObject)
    return obj


def test_plain_data_is_decoded_and_encoded_unchanged() -> None:
    assert encode(ration()) == WHOLE
    assert ration().content == {"spec": {"limits": {"pods": 3}}}


def test_metadata_is_that_of_the_struct() -> None:
    relabeled = replace(ration(), metadata=replace(ration().metadata, labels={"team": "web"}))
    assert encode(relabeled)["metadata"]["labels"] == {"team": "web"}
    assert relabeled["metadata"] == {"name": "a", "namespace": "shop", "labels": {"team": "web"}}
    with pytest.raises(ValueError, match=r"content of a Ration has metadata: make it by CustomObject\.of"):
        replace(ration(), content={"metadata": {"name": "b"}})


def test_fields_are_replaced_in_a_copy() -> None:
    before = ration()
    assert before.replace(spec={"limits": {}}, status={"used": 1}).content == {
        "spec": {"limits": {}},
        "status": {"used": 1},
    }
    assert before.get("status", "none") == "none"
    assert before["spec"] == WHOLE["spec"]


def test_invalid_metadata_is_an_error_of_the_object() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(KIND.type, b'{"metadata": {"labels": {"a": 1}}}')


def test_struct_without_a_kind_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"Unheard is not registered for a kind: register it with custom_kind"):
        find_kind(Unheard)
    with pytest.raises(TypeError, match=r"Ration is a Kind: pass its `.type`"):
        find_kind(KIND)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs its own type"):
        add_kind(Kind("Loose", "custom.example.org", "v1", "looses"))


def test_struct_represents_one_kind() -> None:
    with pytest.raises(ValueError, match=r"Ration is already registered for rations in custom.example.org/v1"):
        custom_kind("Other", "others", "custom.example.org/v1", type=KIND.type)
    assert KIND.type(metadata=ObjectMeta(name="x")).key == "x"
