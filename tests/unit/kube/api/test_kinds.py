"""The table of kinds, and workloads with parts that remain JSON."""

from collections import Counter

import msgspec
import pytest

from moorage.kube.api.codec import convert, decode, encode
from moorage.kube.api.kinds import BY_TYPE, KINDS, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.workloads import AppsWorkload, Deployment, ReplicaSet, ReplicationController

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "ourOwnField": [1, None]}]}}


def test_every_kind_is_listed_once_and_has_at_most_one_struct() -> None:
    counts = Counter((kind.group, kind.version, kind.plural) for kind in KINDS)
    structs = Counter(kind.type for kind in KINDS if kind.has_struct)
    assert [identity for identity, number in counts.items() if number > 1] == []
    assert [struct for struct, number in structs.items() if number > 1] == []


def test_no_struct_has_the_name_of_another_kind() -> None:
    names = {struct: kind.name for struct, kind in BY_TYPE.items() if kind in KINDS}
    assert {struct.__name__: name for struct, name in names.items() if struct.__name__ != name} == {}


def test_short_names_are_taken_once_per_plural() -> None:
    plurals_by_name: dict[str, set[str]] = {}
    for kind in KINDS:
        for name in (kind.plural, *kind.short_names):
            plurals_by_name.setdefault(name, set()).add(kind.plural)
    assert {name: plurals for name, plurals in plurals_by_name.items() if len(plurals) > 1} == {}


def test_kind_read_for_its_metadata_only_has_no_struct() -> None:
    plain = Kind("Thing", "example.org", "v1", "things")
    assert plain.type is KubeObject
    assert not plain.has_struct
    assert plain.full_name == "things.example.org"


@pytest.mark.parametrize("kind", [Deployment, ReplicaSet, ReplicationController])
def test_a_template_is_passed_on_with_every_field(kind: type[AppsWorkload] | type[ReplicationController]) -> None:
    data = {"metadata": {"name": "web"}, "spec": {"template": TEMPLATE}, "status": {"replicas": 2, "more": "x"}}
    obj = decode(kind, msgspec.json.encode(data))
    assert obj.spec.template == TEMPLATE
    assert obj.status == {"replicas": 2, "more": "x"}
    kind_info = BY_TYPE[kind]
    assert encode(obj) == {"apiVersion": kind_info.api_version, "kind": kind_info.name, **data}


@pytest.mark.parametrize("body", [b"{}", b'{"spec":{"template":null},"status":null}'])
def test_missing_template_is_empty(body: bytes) -> None:
    obj = decode(ReplicaSet, body)
    assert obj.spec.template == {}
    assert obj.status == {}


def test_a_workload_can_be_made_of_plain_data() -> None:
    obj = convert(ReplicaSet, {"spec": {"replicas": 3, "template": TEMPLATE}, "status": None})
    assert (obj.spec.replicas, obj.spec.template["metadata"], obj.status) == (3, TEMPLATE["metadata"], {})
