"""Counters that the devices of a pool share: partitions of one GPU draw from its memory, say.

Devices that draw from one counter set at the same time must get on with each other: all have a compatibility group in
common, or none has any. (Without the gate no slice with groups comes this far, so none has.)
"""

from moorage.scheduler.plugins.dynamic_resources.devices.allocated import AllocatedDevices
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import PoolId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import Counters, Pool, PooledDevice

CommonGroups = dict[str, list[frozenset[str]]]
"""By counter set, the groups that all devices in use have in common, after each of them; empty if they have none."""


class CounterTracker:
    """What is left of each pool's counters, who draws from them, and what the devices chosen so far draw."""

    def __init__(self, allocated: AllocatedDevices) -> None:
        self._allocated = allocated
        self._left: dict[PoolId, Counters] = {}
        self._company: dict[PoolId, CommonGroups] = {}

    def draw(self, device: PooledDevice, pool: Pool) -> bool:
        """Draw what a device needs, or leave everything as it is if it would not suffice, or not be compatible."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._start(pool)
        if not self._gets_on(device, self._company[pool.id]):
            return False
        self._join(device, self._company[pool.id])
        for key, amount in device.draws.items():
            left[key] -= amount
        # All counters of the pool, not only this device's: one that is overdrawn already stops every device.
        if all(amount >= 0 for amount in left.values()):
            return True
        self.give_back(device, pool)
        return False

    def give_back(self, device: PooledDevice, pool: Pool) -> None:
        """Undo a draw."""
        left = self._left[pool.id]
        for key, amount in device.draws.items():
            left[key] += amount
        for counter_set, _ in device.groups:
            self._company[pool.id][counter_set].pop()

    def _start(self, pool: Pool) -> Counters:
        left = self._left[pool.id] = dict(pool.counters)
        company = self._company[pool.id] = {}
        for device in (*pool.devices, *pool.others):
            if device.groups and self._allocated.is_taken(device.id):
                self._join(device, company)
                for key, amount in device.draws.items():
                    left[key] -= amount
        return left

    @staticmethod
    def _gets_on(device: PooledDevice, company: CommonGroups) -> bool:
        for counter_set, groups in device.groups:
            if others := company.get(counter_set):
                common = others[-1]
                if bool(common) != bool(groups) or (groups and not groups & common):
                    return False
        return True

    @staticmethod
    def _join(device: PooledDevice, company: CommonGroups) -> None:
        for counter_set, groups in device.groups:
            others = company.setdefault(counter_set, [])
            others.append(groups & others[-1] if others else groups)
