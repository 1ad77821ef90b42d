"""Observes all events of pods, claims and volumes, without polling the API server."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient


class Witness:
    """Records all nodes of each pod over time."""

    def __init__(self, client: ApiClient) -> None:
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        kinds = (Pod, PersistentVolumeClaim, PersistentVolume, ResourceClaim)
        self._informers = {kind: Informer[Any](client, BY_TYPE[kind], self._see) for kind in kinds}

    async def run(self) -> None:
        """Watch until cancelled."""
        await asyncio.gather(*(informer.run() for informer in self._informers.values()))

    def _see(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes if kind.type is Pod else ():
            if change.after is not None and change.after.node_name:
                self._nodes[change.after.uid].add(change.after.node_name)

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods by their keys, as of the last change."""
        return self._informers[Pod].machine.known

    @property
    def claims(self) -> Mapping[str, PersistentVolumeClaim]:
        """All claims to volumes by their keys."""
        return self._informers[PersistentVolumeClaim].machine.known

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        """All volumes by their keys."""
        return self._informers[PersistentVolume].machine.known

    @property
    def device_claims(self) -> Mapping[str, ResourceClaim]:
        """All claims to devices by their keys."""
        return self._informers[ResourceClaim].machine.known

    @property
    def bound(self) -> int:
        """The number of pods that were ever bound."""
        return len(self._nodes)

    def moved(self) -> list[str]:
        """Return the pods that had more than one node."""
        return [f"pod {uid} was on {sorted(nodes)}" for uid, nodes in self._nodes.items() if len(nodes) > 1]
