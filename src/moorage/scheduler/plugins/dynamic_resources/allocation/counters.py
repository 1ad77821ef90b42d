"""Counters shared by the devices of a pool; for example, partitions of a GPU consume its memory.

Devices that consume from one counter set at the same time must be compatible: all share a compatibility group, or
no device has groups. (Without the gate, slices with groups are ignored.)
"""

from moorage.scheduler.plugins.dynamic_resources.devices.allocated import AllocatedDevices
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import PoolId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import Counters, Pool, PooledDevice

CommonGroups = dict[str, list[frozenset[str]]]
"""By counter set, the compatibility groups common to the devices in use, after each device; empty without groups."""


class CounterTracker:
    """Remaining counters of each pool, and the compatibility groups of the devices in use."""

    def __init__(self, allocated: AllocatedDevices) -> None:
        self._allocated = allocated
        self._free: dict[PoolId, Counters] = {}
        self._groups_in_use: dict[PoolId, CommonGroups] = {}

    def draw(self, device: PooledDevice, pool: Pool) -> bool:
        """Consume the counters of a device; change nothing and return False if they are exhausted or incompatible."""
        free = self._free.get(pool.id)
        if free is None:
            free = self._start(pool)
        if not self._is_compatible(device, self._groups_in_use[pool.id]):
            return False
        self._join(device, self._groups_in_use[pool.id])
        for key, amount in device.draws.items():
            free[key] -= amount
        # Check all counters of the pool: an exhausted counter blocks every device.
        if all(amount >= 0 for amount in free.values()):
            return True
        self.give_back(device, pool)
        return False

    def give_back(self, device: PooledDevice, pool: Pool) -> None:
        """Undo a draw."""
        free = self._free[pool.id]
        for key, amount in device.draws.items():
            free[key] += amount
        for counter_set, _ in device.groups:
            self._groups_in_use[pool.id][counter_set].pop()

    def _start(self, pool: Pool) -> Counters:
        free = self._free[pool.id] = dict(pool.counters)
        in_use = self._groups_in_use[pool.id] = {}
        for device in (*pool.devices, *pool.others):
            if device.groups and self._allocated.is_taken(device.id):
                self._join(device, in_use)
                for key, amount in device.draws.items():
                    free[key] -= amount
        return free

    @staticmethod
    def _is_compatible(device: PooledDevice, in_use: CommonGroups) -> bool:
        for counter_set, groups in device.groups:
            if history := in_use.get(counter_set):
                common = history[-1]
                if bool(common) != bool(groups) or (groups and not groups & common):
                    return False
        return True

    @staticmethod
    def _join(device: PooledDevice, in_use: CommonGroups) -> None:
        for counter_set, groups in device.groups:
            history = in_use.setdefault(counter_set, [])
            history.append(groups & history[-1] if history else groups)
