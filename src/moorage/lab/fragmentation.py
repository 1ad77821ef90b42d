"""Typical shapes of the pods of a trace: the measure of GPU fragmentation, and the policy of a trial with FGD."""

from itertools import chain, repeat
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import ConfigError
from moorage.contrib import GpuShape, GpuTable, NodeGpus, Typical
from moorage.kube.features import FeatureGates
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.own_measures import importable
from moorage.lab.trace import TraceFacts
from moorage.lab.trial import Trial
from moorage.scheduler.config.contrib_args import FGDArgs, TypicalShape
from moorage.scheduler.config.expansion import enabled_names
from moorage.scheduler.config.types import PluginConfig, ProfileConfig, SchedulerConfiguration
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

FGD: Final = "FGD"
GPU_SHARE: Final = "GpuShare"
GPU_POLICIES: Final = (FGD, "GpuBestFit", "GpuClustering", "GpuDotProd", "GpuPacking", "GpuRandom")
"""Score plugins that need GpuShare in the same profile."""


def find_typical_shapes(facts: TraceFacts) -> Typical:
    """Return the shapes that cover nearly all pods of a trace."""
    return Typical.covering(chain.from_iterable(repeat(GpuShape(*shape), pods) for shape, pods in facts.shapes.items()))


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


def _require_gpu_share(policy: Policy) -> None:
    """Raise ConfigError for a GPU policy without the plugin that assigns devices: its scores would be meaningless."""
    for profile in policy.config.profiles:
        names = set(enabled_names(profile.plugins))
        dependent = next((name for name in GPU_POLICIES if name in names), None)
        if dependent is not None and GPU_SHARE not in names:
            location = f"profile {profile.scheduler_name}"
            raise ConfigError(location, f"{dependent} needs the plugin {GPU_SHARE}", hint=f"add {GPU_SHARE} to enabled")


def load_trial_policy(trial: Trial) -> Policy:
    """Return the policy of a trial. Raise ConfigError if its configuration is invalid."""
    source = trial.policy
    with importable(trial.directory):
        registry = collect_plugins(paths=source.plugins)
    policy = load_policy(registry, source.config, features=FeatureGates(source.gates))
    _require_gpu_share(policy)
    facts = trial.trace.facts
    if not facts.has_gpus:
        return policy
    config = configure_fgd(policy.config, find_typical_shapes(facts))
    return Policy(config, policy.registry, policy.features)
