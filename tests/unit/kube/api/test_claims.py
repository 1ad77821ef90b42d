"""Claims and volumes: how pods, claims and volumes refer to each other."""

import msgspec
import pytest

from moorage.kube.api.claims import (
    ClaimUse,
    claim_uses,
    exact_capacity,
    find_reach,
    is_bound_to,
    is_fully_bound,
    ownership_problem,
    requested_storage,
    storage_class_name,
    uses_claim,
)
from moorage.kube.api.codec import decode
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim


def make_claim(name: str = "data", **parts: object) -> PersistentVolumeClaim:
    body = {"metadata": {"name": name, "namespace": "shop", "uid": "c1", **parts.pop("metadata", {})}, **parts}  # type: ignore[dict-item]
    return decode(PersistentVolumeClaim, msgspec.json.encode(body))


def make_volume(**spec: object) -> PersistentVolume:
    return decode(PersistentVolume, msgspec.json.encode({"metadata": {"name": "v"}, "spec": spec}))


POD = decode(
    Pod,
    msgspec.json.encode(
        {
            "metadata": {"name": "web", "namespace": "shop", "uid": "p1"},
            "spec": {
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "b", "emptyDir": {}},
                    {"name": "c", "ephemeral": {}},
                ]
            },
        }
    ),
)


def test_uses_are_named_claims_and_ephemeral_volumes() -> None:
    assert claim_uses(POD) == (ClaimUse("data", False), ClaimUse("web-c", True))
    assert uses_claim(POD, make_claim("web-c"))
    assert not uses_claim(POD, make_claim("web-c"), ephemeral=False)
    assert not uses_claim(POD, make_claim("data", metadata={"namespace": "other"}))


def test_ephemeral_claim_belongs_to_its_pod() -> None:
    owner = {"ownerReferences": [{"uid": "p1", "controller": True}]}
    assert ownership_problem(make_claim("web-c", metadata=owner), POD) is None
    problem = "PVC shop/web-c was not created for pod shop/web (pod is not owner)"
    assert ownership_problem(make_claim("web-c"), POD) == problem


def test_annotation_of_the_class_takes_precedence() -> None:
    legacy = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    assert storage_class_name(make_claim(metadata=legacy, spec={"storageClassName": "new"})) == "old"
    assert storage_class_name(make_claim()) == ""
    assert storage_class_name(make_volume(storageClassName="fast")) == "fast"


def test_claim_is_bound_when_the_controller_completed_it() -> None:
    completed = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    assert is_fully_bound(make_claim(metadata=completed, spec={"volumeName": "v"}))
    assert not is_fully_bound(make_claim(spec={"volumeName": "v"}))
    assert not is_fully_bound(make_claim(metadata=completed))


@pytest.mark.parametrize(
    ("reference", "want"),
    {
        "no claim": (None, False),
        "a claim by name": ({"name": "data", "namespace": "shop"}, True),
        "this claim": ({"name": "data", "namespace": "shop", "uid": "c1"}, True),
        "an earlier claim of the name": ({"name": "data", "namespace": "shop", "uid": "c0"}, False),
        "a claim of another namespace": ({"name": "data", "namespace": "other"}, False),
    }.values(),
)
def test_volume_is_bound_to_a_claim(reference: dict[str, str] | None, want: bool) -> None:
    assert is_bound_to(make_volume(claimRef=reference), make_claim()) is want


def test_sizes_are_rounded_up_or_exact() -> None:
    assert requested_storage(make_claim(spec={"resources": {"requests": {"storage": "1500m"}}})) == 2
    assert exact_capacity(make_volume(capacity={"storage": "1500m"})) == 1_500_000_000


def test_reach_ignores_names_of_nodes() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    zone = [{"key": "zone", "operator": "In", "values": ["a"]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": zone, "matchFields": fields}]}
    reach = find_reach(make_volume(nodeAffinity={"required": terms}))
    assert reach is not None
    assert (reach.matches({"zone": "a"}, "other"), reach.matches({"zone": "b"}, "n")) == (True, False)
    assert find_reach(make_volume()) is None
