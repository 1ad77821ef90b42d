"""GPUs of dynamic resource allocation: devices in slices, and their use by claims."""

from math import ceil

from msgspec import Struct

from moorage.contrib.gpu.devices import MAX_DEVICES, GpuDemand
from moorage.kube.api.devices import Device, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import nano_value
from moorage.scheduler.framework.handle import Handle


class HeldPart(Struct, frozen=True):
    """The use of a device by a claim, in thousandths."""

    pool: str
    device: str
    milli: int


class ClaimedDevices:
    """The devices that one driver publishes for single nodes, and their free capacity.

    A device that several claims may share is as full as its fullest capacity.
    """

    def __init__(self, handle: Handle, driver: str) -> None:
        self.driver = driver
        self.slices = handle.lister(ResourceSlice)
        self.claims = handle.lister(ResourceClaim)
        self._on_node: dict[str, list[tuple[str, str]]] = {}
        self._known: dict[tuple[str, str], Device] = {}
        self._slices_version = -1
        self._held: dict[str, tuple[HeldPart, ...]] = {}
        self._taken: dict[tuple[str, str], int] = {}
        self._claims_version = -1

    def refresh(self) -> None:
        """Apply changes: slices all together, which are few, and claims one by one."""
        if self._slices_version != self.slices.version:
            self._slices_version, self._claims_version = self.slices.version, -1
            self._read_slices()
        if self._claims_version == self.claims.version:
            return
        changed_keys = self.claims.changed_since(self._claims_version) if self._claims_version >= 0 else None
        self._claims_version = self.claims.version
        if changed_keys is None:
            self._held, self._taken = {}, {}
            changed_keys = [claim.key for claim in self.claims.list()]
        for key in dict.fromkeys(changed_keys):
            self._replace(key, self.claims.find(key))

    def _read_slices(self) -> None:
        latest: dict[str, int] = {}
        specs = [
            resource_slice.spec
            for resource_slice in self.slices.list()
            if resource_slice.spec.driver == self.driver and resource_slice.spec.node_name
        ]
        for spec in specs:
            latest[spec.pool.name] = max(latest.get(spec.pool.name, 0), spec.pool.generation)
        self._on_node, self._known = {}, {}
        for spec in specs:
            if spec.pool.generation == latest[spec.pool.name]:
                devices = {(spec.pool.name, device.name): device for device in spec.devices}
                self._known.update(devices)
                self._on_node.setdefault(spec.node_name or "", []).extend(devices)

    def _replace(self, key: str, claim: ResourceClaim | None) -> None:
        for part in self._held.pop(key, ()):
            self._taken[part.pool, part.device] -= part.milli
        if claim is None or claim.status.allocation is None:
            return
        results = claim.status.allocation.devices.results
        parts = self._held[key] = tuple(
            HeldPart(result.pool, result.device, self._milli(result))
            for result in results
            if result.driver == self.driver and not result.admin_access
        )
        for part in parts:
            device_key = (part.pool, part.device)
            self._taken[device_key] = self._taken.get(device_key, 0) + part.milli

    def _milli(self, result: DeviceRequestAllocationResult) -> int:
        if result.share_id is None:
            return WHOLE_GPU
        device = self._known.get((result.pool, result.device))
        shares = [
            nano_value(amount) / capacity
            for name, amount in result.consumed_capacity.items()
            if device is not None and name in device.capacity and (capacity := nano_value(device.capacity[name].value))
        ]
        return min(ceil(WHOLE_GPU * max(shares, default=0.0)), WHOLE_GPU)

    def find_free_shares(self, node_name: str) -> tuple[int, ...]:
        """Return the free amount of each device of a node, in the order of pools and names."""
        self.refresh()
        device_keys = sorted(self._on_node.get(node_name, ()))[:MAX_DEVICES]
        return tuple(max(WHOLE_GPU - self._taken.get(device_key, 0), 0) for device_key in device_keys)

    def claimed_demand(self, pod: Pod) -> GpuDemand | None:
        """Return the number of devices that the claims of a pod request. All are treated as whole devices."""
        count = 0
        generated_claims = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name or generated_claims.get(entry.name)
            claim = self.claims.get(name, pod.namespace) if name else None
            if claim is not None:
                exact = (request.exactly for request in claim.spec.devices.requests)
                count += sum(max(request.count, 1) for request in exact if request is not None)
        return GpuDemand(min(count, MAX_DEVICES), WHOLE_GPU) if count else None
