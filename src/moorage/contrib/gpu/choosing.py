"""Ways to choose the device of a share; whole GPUs are taken from free devices in the order of their numbers."""

from random import Random

from moorage.contrib.gpu.books import ChooseDevices, GpuBooks
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus, first_fitting, loosest, tightest
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import BY_POLICY, FIRST, LOOSEST, RANDOM, TIGHTEST


def way_to_choose(selection: str, seed: int, books: GpuBooks) -> ChooseDevices:
    """Return the device selection of GpuShare's configuration or of the profile's policy."""

    def by_policy(pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        # Resolved late: the policy may be constructed after GpuShare.
        return tightest(node.free, demand) if books.choose is None else books.choose(pod, demand, node)

    ways: dict[str, ChooseDevices] = {
        BY_POLICY: by_policy,
        TIGHTEST: lambda _pod, demand, node: tightest(node.free, demand),
        LOOSEST: lambda _pod, demand, node: loosest(node.free, demand),
        FIRST: lambda _pod, demand, node: first_fitting(node.free, demand),
        RANDOM: RandomDevices(seed).devices_for,
    }
    return ways[selection]


class RandomDevices:
    """Any device that has enough left, by lots that seed and pod decide."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def devices_for(self, pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        """Draw the devices of a pod."""
        fitting = [device for device, free in enumerate(node.free) if free >= demand.milli]
        if len(fitting) < demand.count or not demand.is_share:
            return first_fitting(node.free, demand)
        return (Random(f"{self._seed} {pod.key}").choice(fitting),)
