import pytest

from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import ObjectMeta
from moorage.scheduler.plugins.extended_resources import ExtendedResourceClasses
from moorage.testing.rig import Rig

GPU = "example.com/gpu"
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def device_class(name: str, resource: str | None = GPU, created: str | None = EARLY) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name, creation_timestamp=created),
        spec=DeviceClassSpec(extended_resource_name=resource),
    )


CASES = {
    "nobody offers it": ([device_class("a", None)], GPU, None),
    "one class offers it": ([device_class("a")], GPU, "a"),
    "the newest of several": ([device_class("a"), device_class("b", created=LATE)], GPU, "b"),
    "the newest, in whatever order they came": ([device_class("b", created=LATE), device_class("a")], GPU, "b"),
    "the first by name of equally old ones": ([device_class("b"), device_class("a"), device_class("c")], GPU, "a"),
    "one without a date is oldest": ([device_class("a", created=None), device_class("b")], GPU, "b"),
    "every class by its own name": ([device_class("a", None)], "deviceclass.resource.kubernetes.io/a", "a"),
    "no class by another's": ([device_class("a")], "deviceclass.resource.kubernetes.io/b", None),
}


@pytest.mark.parametrize(("classes", "resource", "want"), CASES.values(), ids=CASES)
def test_find(classes: list[DeviceClass], resource: str, want: str | None) -> None:
    result = ExtendedResourceClasses(Rig(*classes).lister(DeviceClass)).find(resource)
    assert (result.name if result else None) == want


def test_classes_follow_changes() -> None:
    rig = Rig(device_class("a"))
    classes = ExtendedResourceClasses(rig.lister(DeviceClass))
    before = classes.version
    assert classes.find(GPU) is not None
    rig.add(device_class("a", None))
    assert classes.version > before
    assert classes.find(GPU) is None
