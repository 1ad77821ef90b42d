import pytest

from moorage.kube.api.storage import PersistentVolume
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from moorage.testing.rig import Rig
from moorage.testing.storage import make_volume


def make_assume_cache(rig: Rig) -> AssumeCache[PersistentVolume]:
    return AssumeCache(rig.lister(PersistentVolume), "persistentvolumes")


def test_an_assumed_copy_replaces_the_object_until_it_changes() -> None:
    rig = Rig(make_volume("v", version="1"))
    cache = make_assume_cache(rig)
    assumed = make_volume("v", version="1", phase="Bound")
    cache.assume(assumed)
    assert cache.get("v") is assumed
    existing = cache.known("v")
    assert existing is not None
    assert existing.status.phase == "Available"
    newer = make_volume("v", version="2")
    rig.add(newer)
    assert cache.get("v") is newer
    rig.add(make_volume("v", version="1"))
    assert cache.get("v") is not assumed, "what has come to an end does not come back"


def test_a_copy_of_another_version_is_rejected() -> None:
    cache = make_assume_cache(Rig(make_volume("v", version="2")))
    with pytest.raises(OutOfSyncError, match=r'"v" is out of sync \(stored: 2, assume: 1\)'):
        cache.assume(make_volume("v", version="1"))


def test_an_object_that_is_deleted_cannot_be_assumed_and_is_not_found() -> None:
    rig = Rig(make_volume("v"))
    cache = make_assume_cache(rig)
    cache.assume(make_volume("v", phase="Bound"))
    rig.objects[PersistentVolume].drop(make_volume("v"))
    assert cache.get("v") is None
    with pytest.raises(OutOfSyncError, match='persistentvolumes "v" not found'):
        cache.assume(make_volume("v"))


def test_only_the_same_version_is_restored() -> None:
    rig = Rig(make_volume("v", version="1"))
    cache = make_assume_cache(rig)
    assumed = make_volume("v", version="1", phase="Bound")
    cache.assume(assumed)
    cache.restore(make_volume("v", version="2"))
    assert cache.get("v") is assumed
    cache.restore(assumed)
    assert cache.get("v") == make_volume("v", version="1")
    cache.restore(assumed)
