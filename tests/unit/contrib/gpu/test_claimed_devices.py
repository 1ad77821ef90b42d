"""Devices of dynamic resource allocation in the measure of fragmentation: complete ones, and shares of capacity."""

from msgspec.structs import replace

from moorage.contrib.gpu.claimed_devices import ClaimedDevices
from moorage.contrib.gpu.devices import GpuDemand
from moorage.contrib.gpu.gpu_share import GpuShare
from moorage.kube.api.devices import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import PodResourceClaim
from moorage.scheduler.config.contrib_args import GpuShareArgs
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

DRIVER = "gpu.example.com"


def published(name: str, node: str, devices: int, *, generation: int = 1, driver: str = DRIVER) -> ResourceSlice:
    device_list = tuple(
        Device(name=f"gpu-{number}", capacity={"memory": DeviceCapacity("80Gi")}) for number in range(devices)
    )
    pool = ResourcePool(node, generation, 1)
    return ResourceSlice(ObjectMeta(name=name), spec=ResourceSliceSpec(driver, pool, node, devices=device_list))


def claim(name: str, *devices: str, memory: str = "", node: str = "a", count: int = 1) -> ResourceClaim:
    request = DeviceClaim(requests=(DeviceRequest("gpus", ExactDeviceRequest("gpu", count=count)),))
    results = tuple(
        DeviceRequestAllocationResult(
            "gpus",
            DRIVER,
            node,
            device,
            share_id=f"{name}-{device}" if memory else None,
            consumed_capacity={"memory": memory} if memory else {},
        )
        for device in devices
    )
    allocation = AllocationResult(DeviceAllocationResult(results)) if devices else None
    metadata = ObjectMeta(name=name, namespace="default")
    return ResourceClaim(metadata, spec=ResourceClaimSpec(request), status=ResourceClaimStatus(allocation))


def test_devices_of_claims_are_in_use() -> None:
    rig = Rig(published("s", "a", 3), claim("one", "gpu-1"), claim("part", "gpu-2", memory="20Gi"))
    devices = ClaimedDevices(rig, DRIVER)
    assert devices.find_free_shares("a") == (1000, 0, 750)
    rig.add(claim("more", "gpu-2", memory="40Gi"))
    assert devices.find_free_shares("a") == (1000, 0, 250)
    rig.add(claim("part"))
    assert devices.find_free_shares("a") == (1000, 0, 500), "it was given back"
    assert devices.find_free_shares("b") == ()


def test_only_the_latest_slices_of_the_driver_count() -> None:
    rig = Rig(published("old", "a", 3), published("new", "a", 1, generation=2), published("x", "a", 5, driver="other"))
    assert ClaimedDevices(rig, DRIVER).find_free_shares("a") == (1000,)


def test_metrics_count_devices_and_requests_of_claims() -> None:
    waiting = make_pod("waiting", resource_claims=(PodResourceClaim("gpus", "two"),))
    rig = Rig(make_node("a"), published("s", "a", 3), claim("one", "gpu-1"), claim("two", count=2), waiting)
    assert ClaimedDevices(rig, DRIVER).claimed_demand(waiting) == GpuDemand(2, 1000)
    args = GpuShareArgs(dra_driver=DRIVER, pool_label="kubernetes.io/hostname")
    readings = {(name, *labels): value for name, labels, value in GpuShare(args=args, handle=rig).gauges()}
    assert readings["moorage_largest_job_gpus", "a"] == 2.0
    assert readings["moorage_fragmentation_ratio", "a", "cpu=0m,gpu=2x1000"] == 0.0
    rig.add(replace(claim("three", "gpu-0")))
    assert GpuShare(args=args, handle=rig).gauges()
    again = {(name, *labels): value for name, labels, value in GpuShare(args=args, handle=rig).gauges()}
    assert again["moorage_largest_job_gpus", "a"] == 1.0
    assert round(again["moorage_fragmentation_ratio", "a", "cpu=0m,gpu=2x1000"], 3) == 0.333
