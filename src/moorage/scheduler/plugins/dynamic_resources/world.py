"""What all profiles share: claims, classes, slices, and the answers that follow from them."""

from typing import Final

from moorage.kube.api.devices import DeviceClass, ResourceClaim
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle, Lister
from moorage.scheduler.plugins.dynamic_resources.answers import AnswerBook
from moorage.scheduler.plugins.dynamic_resources.claims import ClaimBook
from moorage.scheduler.plugins.dynamic_resources.ids import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.slices import Situations
from moorage.scheduler.plugins.extended_resources import ExtendedResourceClasses


class DeviceWorld:
    """Devices and claims of one cluster. A device given to a pod of one profile is taken for the pods of all."""

    def __init__(self, handle: Handle) -> None:
        self.features = DeviceFeatures.of(handle.features)
        self.classes: Lister[DeviceClass] = handle.lister(DeviceClass)
        self.extended = ExtendedResourceClasses(self.classes)
        self.situations = Situations(handle, self.features)
        self.claims = ClaimBook(
            handle.lister(ResourceClaim),
            shares=self.features.consumable_capacity,
            on_change=self.situations.touch,
            of_groups=self.features.group_claims,
        )
        self.answers = AnswerBook(self.situations, self.claims, self.classes, self.features)

    def refresh(self) -> None:
        """Apply what was observed since the last cycle: slices and nodes first, so that claims find their pools."""
        self.situations.refresh()
        self.claims.refresh()


WORLD: Final = StateKey["DeviceWorld"]("the devices of the cluster")


def device_world(handle: Handle) -> DeviceWorld:
    """Return the one world of the cluster behind a handle, for plugins of all its profiles."""
    return handle.shared(WORLD, lambda: DeviceWorld(handle))
