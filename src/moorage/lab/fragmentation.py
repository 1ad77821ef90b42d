"""Typical shapes of the pods of a trace: the measure of GPU fragmentation, and the policy of a trial with FGD."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from moorage.contrib import GpuShape, GpuTable, NodeGpus, Typical
from moorage.kube.features import FeatureGates
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.trace import TracePod
from moorage.lab.trial import Trial
from moorage.scheduler.config.contrib_args import FGDArgs, TypicalShape
from moorage.scheduler.config.types import PluginConfig, ProfileConfig, SchedulerConfiguration
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

FGD: Final = "FGD"


def find_typical_shapes(pods: Iterable[TracePod]) -> Typical:
    """Return the shapes that cover nearly all pods of a trace."""
    return Typical.covering(
        GpuShape(pod.cpu_milli, pod.gpus, pod.gpu_milli, tuple(sorted(set(pod.gpu_models))))
        if pod.gpus
        else GpuShape(pod.cpu_milli)
        for pod in pods
    )


def measure_fragmentation(ledger: UsageLedger, typical: Typical) -> float:
    """Return the share of all GPUs that is idle and unusable for typical pods."""
    accounts = [account for account in ledger.nodes.values() if account.total[GPU]]
    gpus = [NodeGpus(tuple(account.devices), account.model, account.free[CPU]) for account in accounts]
    return typical.useless_share(GpuTable.of(gpus))


def configure_fgd(config: SchedulerConfiguration, typical: Typical) -> SchedulerConfiguration:
    """Configure FGD with the typical pods of the trace, unless the configuration defines them."""
    shapes = tuple(
        TypicalShape(shape.cpu, shape.count, shape.milli, shape.models, pods) for shape, pods in typical.counts.items()
    )

    def configure(profile: ProfileConfig) -> ProfileConfig:
        args = profile.find_args(FGD) or FGDArgs()
        if not isinstance(args, FGDArgs) or args.typical_shapes:
            return profile
        other_configs = tuple(entry for entry in profile.plugin_config if entry.name != FGD)
        entry = PluginConfig(name=FGD, args=replace(args, typical_shapes=shapes))
        return replace(profile, plugin_config=(*other_configs, entry))

    return replace(config, profiles=tuple(map(configure, config.profiles)))


def load_trial_policy(trial: Trial) -> Policy:
    """Return the policy of a trial; raise ConfigError if its configuration is invalid."""
    source = trial.policy
    registry = collect_plugins(paths=source.plugins)
    policy = load_policy(registry, source.config, features=FeatureGates(source.gates))
    if not any(pod.gpus for pod in trial.trace.pods):
        return policy
    config = configure_fgd(policy.config, find_typical_shapes(trial.trace.pods))
    return Policy(config, policy.registry, policy.features)
