"""What-if changes: settings, removed nodes, added nodes, and invalid changes."""

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod

from moorage.common.errors import InputError
from moorage.insight.whatif.changes import apply_changes
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.objects import missing
from moorage.kube.manifests import to_documents

DAEMON = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}


def names(**wishes: list[str]) -> dict[str, Object]:
    owned = pod("owned", on="n1")
    owned["metadata"] |= DAEMON
    objects = [node("n1", labels={"pool": "old"}), node("n2"), pod("a", on="n1"), owned]
    documents = apply_changes(to_documents(objects, source="here"), **wishes)
    return {document.content["metadata"]["name"]: dict(document.content) for document in documents}


@pytest.mark.parametrize("wish", ["n1", "n[1]", "pool=old"])
def test_pods_of_a_removed_node_become_pending(wish: str) -> None:
    objects = names(removed=[wish])
    assert sorted(objects) == ["a", "n2"]
    assert "nodeName" not in objects["a"]["spec"]
    assert "status" not in objects["a"]


def test_copies_of_an_existing_node_are_added() -> None:
    objects = names(added=["2xn1"])
    assert objects["n1-new-2"]["metadata"]["labels"]["pool"] == "old"
    assert objects["n1-new-2"]["metadata"]["labels"]["kubernetes.io/hostname"] == "n1-new-2"


def test_nodes_of_a_size() -> None:
    assert names(added=["1xcpu=2,memory=4Gi"])["added-new-1"]["status"]["allocatable"]["cpu"] == "2"


def test_settings_are_yaml() -> None:
    objects = names(settings=["node/n1:spec.unschedulable=true", r"node/n2:metadata.labels.example\.com/rack=r1"])
    assert objects["n1"]["spec"]["unschedulable"] is True
    assert objects["n2"]["metadata"]["labels"]["example.com/rack"] == "r1"


BAD = {
    "no such node to take away": ({"removed": ["n"]}, "did you mean 'n2'|did you mean 'n1'"),
    "no such node to copy": ({"added": ["2xn9"]}, "node 'n9' not found"),
    "no number": ({"added": ["n1"]}, "use 3xNAME"),
    "no such kind": ({"settings": ["nod/n1:a=b"]}, "did you mean 'node'"),
    "no such object": ({"settings": ["node/n11:a=b"]}, "did you mean 'n1'"),
    "no field": ({"settings": ["node/n1"]}, "KIND/NAME:FIELD=VALUE"),
    "a field that there is not": ({"settings": ["node/n1:spec.unschedulabel=true"]}, "has no field spec.unschedulabel"),
    "a field that is not a list": ({"settings": ["node/n1:spec[0]=true"]}, "has no field spec.0"),
    "a value that is not YAML": ({"settings": ["node/n1:spec.a=[1"]}, "the value is not valid YAML"),
}


@pytest.mark.parametrize(("wishes", "message"), BAD.values(), ids=BAD)
def test_invalid_changes_are_reported(wishes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        names(**wishes)


def test_hints_for_missing_objects_compare_names_without_namespaces() -> None:
    keys = ["default/too-big", "default/web-1", "shop/cart"]
    assert "the pods are too-big, web-1" in str(missing(ObjectId("Pod", "default", "nosuchpod"), keys))
    assert "the pods are in other namespaces: shop" in str(missing(ObjectId("Pod", "web", "nosuchpod"), ["shop/cart"]))
    assert "there are no pods" in str(missing(ObjectId("Pod", "web", "nosuchpod"), []))
    assert "did you mean 'default/web-1'?" in str(missing(ObjectId("Pod", "default", "wbe-1"), keys))
    assert "there is 'shop/cart'" in str(missing(ObjectId("Pod", "default", "cart"), keys))
