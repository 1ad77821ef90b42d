"""Counters that the devices of a pool share: partitions of one GPU draw from its memory, say."""

from moorage.plugins.dynamic_resources.allocated import AllocatedDevices
from moorage.plugins.dynamic_resources.ids import PoolId
from moorage.plugins.dynamic_resources.pools import Counters, Pool, PooledDevice


class CounterBook:
    """What is left of each pool's counters, and what the devices chosen so far draw."""

    def __init__(self, allocated: AllocatedDevices) -> None:
        self._allocated = allocated
        self._left: dict[PoolId, Counters] = {}

    def draw(self, device: PooledDevice, pool: Pool) -> bool:
        """Draw what a device needs, or leave everything as it is if one of the pool's counters would not suffice."""
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = self._initially_left(pool)
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

    def _initially_left(self, pool: Pool) -> Counters:
        left = dict(pool.counters)
        for device in (*pool.devices, *pool.others):
            if device.draws and self._allocated.is_taken(device.id):
                for key, amount in device.draws.items():
                    left[key] -= amount
        return left
