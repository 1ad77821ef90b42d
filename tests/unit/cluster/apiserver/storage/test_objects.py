import pytest

from moorage.cluster.apiserver.storage.objects import ObjectStore
from moorage.common.clock import VirtualClock
from moorage.common.errors import Conflict
from moorage.testing import make_pod


def test_struct_can_be_read_as_json():
    objects = ObjectStore(VirtualClock())
    objects.create(make_pod("a"))
    entry = objects.store.get("pods", "default/a")
    assert entry is not None
    assert entry.is_typed
    assert entry.data["kind"] == "Pod"
    assert entry.data["metadata"]["resourceVersion"] == "1"


def test_struct_written_over_json_preserves_unknown_fields():
    objects = ObjectStore(VirtualClock())
    container = {"name": "main", "image": "web:1", "stdin": True}
    data = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"containers": [container]}}
    objects.store.put("pods", "default/a", data)
    bound = objects.update(objects.current(make_pod("a", uid="u")).on_node("n1"))
    entry = objects.store.get("pods", "default/a")
    assert entry is not None
    assert entry.data["spec"] == {"containers": [container], "nodeName": "n1"}
    assert bound.node_name == "n1"


def test_update_of_an_old_version_is_a_conflict():
    objects = ObjectStore(VirtualClock())
    first = objects.create(make_pod("a"))
    objects.update(first)
    with pytest.raises(Conflict, match="was modified"):
        objects.update(first)
