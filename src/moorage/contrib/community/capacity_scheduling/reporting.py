"""Periodic updates of the usage in the status of quotas."""

import asyncio
from typing import Any, Final

from moorage.common.errors import ApiError
from moorage.contrib.community.capacity_scheduling.quotas import ElasticQuota, Usage
from moorage.kube.api.quantity import NANO, format_nanos
from moorage.scheduler.framework.handle import Handle, Lister

WRITE_EVERY: Final = 5.0
"""Interval of the updates in seconds."""


class UsageReport:
    """Writes the status of quotas whose usage has changed, while the scheduler leads."""

    def __init__(self, handle: Handle, objects: Lister[ElasticQuota], usage: Usage) -> None:
        self._handle = handle
        self._objects = objects
        self._usage = usage

    def start(self) -> None:
        """Begin to write."""
        self._handle.in_background(self._write_on(), name="usage of elastic quotas")

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY)
            for quota in list(self._objects.list()):
                if (usage := self._used_of(quota)) != quota.status.used:
                    await self._write(quota, usage)

    def _used_of(self, quota: ElasticQuota) -> dict[str, Any]:
        counted = self._usage.of(quota.namespace)
        return {name: written(name, counted.get(name, 0)) for name in {**quota.spec.min, **quota.spec.max}}

    async def _write(self, quota: ElasticQuota, usage: dict[str, Any]) -> None:
        removed = {name: None for name in quota.status.used if name not in usage}
        try:
            await self._handle.cluster.patch_status(quota, {"used": {**usage, **removed}})
        except ApiError as error:
            self._handle.log.warning("usage of an elastic quota was not written", quota=quota.key, error=str(error))


def written(resource: str, amount: int) -> str:
    """Write an amount as users do."""
    if resource == "cpu":
        return format_nanos(amount * NANO // 1000, is_binary=False)
    return format_nanos(amount * NANO, is_binary=resource in ("memory", "ephemeral-storage"))
