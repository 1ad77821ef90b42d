"""GPU fragmentation in a trial, measured with the typical shapes of its trace, which FGD also uses."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.reporting import cluster_fragmentation
from moorage.contrib.gpu.shapes import GpuShape, Typical
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.trace import TracePod
from moorage.scheduler.config.gpu_args import FGDArgs, TypicalShape
from moorage.scheduler.config.types import PluginConfig, ProfileConfig, SchedulerConfiguration

FGD: Final = "FGD"


def typical_of(pods: Iterable[TracePod]) -> Typical:
    """Return the shapes that cover nearly all pods of a trace."""
    return Typical.covering(_shape_of(pod) for pod in pods)


def _shape_of(pod: TracePod) -> GpuShape:
    asks = (pod.gpus, pod.gpu_milli, tuple(sorted({*pod.gpu_models}))) if pod.gpus else ()
    return GpuShape(pod.cpu_milli, *asks)


def fragmentation_now(ledger: UsageLedger, typical: Typical) -> float:
    """Return how much of all GPUs is idle and of no use to typical pods, as a share."""
    having = [account for account in ledger.nodes.values() if account.total[GPU]]
    gpus = [NodeGpus(tuple(account.devices), account.model, account.free[CPU]) for account in having]
    return cluster_fragmentation(GpuTable.of(gpus), typical)


def told_typical(config: SchedulerConfiguration, typical: Typical) -> SchedulerConfiguration:
    """Configure FGD with the typical pods of the trace, unless the configuration defines them."""
    return replace(config, profiles=tuple(_told(profile, typical) for profile in config.profiles))


def _told(profile: ProfileConfig, typical: Typical) -> ProfileConfig:
    args = profile.args_of(FGD) or FGDArgs()
    if not isinstance(args, FGDArgs) or args.typical_shapes:
        return profile
    shapes = tuple(
        TypicalShape(shape.cpu, shape.count, shape.milli, shape.models, pods) for shape, pods in typical.counts.items()
    )
    other_configs = tuple(entry for entry in profile.plugin_config if entry.name != FGD)
    entry = PluginConfig(name=FGD, args=replace(args, typical_shapes=shapes))
    return replace(profile, plugin_config=(*other_configs, entry))
