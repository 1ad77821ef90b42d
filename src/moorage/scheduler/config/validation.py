"""Upstream's checks of a completed configuration, in upstream's order and words."""

from collections.abc import Iterator

import msgspec

from moorage.common.errors import ConfigError
from moorage.kube.admission.checks.names import qualified_name
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.args_validation import args_problems
from moorage.scheduler.config.plugin_facts import REMOVED
from moorage.scheduler.config.problems import duplicate, invalid, required
from moorage.scheduler.config.types import (
    API_VERSION,
    LeaderElection,
    ManagedResource,
    Plugins,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)

# Upstream does not look for removed plugins here.
_NOT_SEARCHED_FOR_REMOVED = ("multi_point", "placement_generate", "placement_score")


def validate(config: SchedulerConfiguration, gates: FeatureGates) -> Iterator[ConfigError]:
    """Yield every problem: connection, leader election, parallelism, profiles, percentage, backoff, extenders."""
    burst = config.client_connection.burst
    if burst is not None and burst < 0:
        yield invalid("clientConnection.burst", burst, "must be non-negative")
    yield from _leader_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    seen_names: dict[str, int] = {}
    for index, profile in enumerate(config.profiles):
        where = f"profiles[{index}]"
        yield from _profile(profile, where, gates)
        if profile.scheduler_name in seen_names:
            # Upstream prints the place of the first one, which comes out empty.
            hint = f"profiles[{seen_names[profile.scheduler_name]}] has the name {profile.scheduler_name!r} already"
            yield duplicate(f"{where}.schedulerName", {}, hint=hint)
        seen_names[profile.scheduler_name] = index
    yield from _common_queue_sort(config.profiles)
    yield from _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    initial, maximum = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if maximum < initial:
        yield invalid("podMaxBackoffSeconds", maximum, "must be greater than or equal to PodInitialBackoffSeconds")
    managed: set[str] = set()
    for index, extender in enumerate(config.extenders):
        where = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{where}.weight", extender.weight, "must have a positive weight applied to it")
        for number, resource in enumerate(extender.managed_resources):
            yield from _managed_resource(resource, f"{where}.managedResources[{number}].name", managed)
            managed.add(resource.name)
    binders = sum(1 for extender in config.extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        yield invalid("extenders", value, "only one extender can implement bind")


def _leader_election(election: LeaderElection) -> Iterator[ConfigError]:
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in durations.items():
        if duration.nanoseconds <= 0:
            yield invalid(f"leaderElection.{name}", duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # Upstream prints the deadline here, not the lease.
        where, deadline = "leaderElection.leaseDuration", election.renew_deadline
        yield invalid(where, deadline, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _profile(profile: ProfileConfig, where: str, gates: FeatureGates) -> Iterator[ConfigError]:
    if not profile.scheduler_name:
        hint = "only a profile that is alone is called default-scheduler by itself"
        yield required(f"{where}.schedulerName", hint=hint)
    yield from _percentage(profile.percentage_of_nodes_to_score, f"{where}.percentageOfNodesToScore")
    yield from _removed_plugins(profile.plugins, f"{where}.plugins")
    seen_names: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        field_path = f"{where}.pluginConfig[{index}]"
        if entry.name in seen_names:
            yield duplicate(field_path, entry.name)
        seen_names.add(entry.name)
        if entry.name in REMOVED:
            yield _removed(field_path, entry.name)
        else:
            yield from args_problems(entry.args, f"{field_path}.args", gates)


def _removed_plugins(plugins: Plugins, where: str) -> Iterator[ConfigError]:
    for field in msgspec.structs.fields(Plugins):
        if field.name not in _NOT_SEARCHED_FOR_REMOVED:
            plugin_set: PluginSet = getattr(plugins, field.name)
            for index, plugin in enumerate(plugin_set.enabled):
                if plugin.name in REMOVED:
                    yield _removed(f"{where}.{field.encode_name}.enabled[{index}]", plugin.name)


def _removed(where: str, name: str) -> ConfigError:
    # The first version is upstream's slip: it prints the core API's.
    text = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(where, name, text)


def _common_queue_sort(profiles: tuple[ProfileConfig, ...]) -> Iterator[ConfigError]:
    first = profiles[0].plugins.queue_sort
    name = first.enabled[0].name if first.enabled else ""
    if len(first.enabled) > 1:
        where = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(where, len(first.enabled), "only one queue sort plugin can be enabled")
    args = profiles[0].find_args(name) if name else None
    for index, profile in enumerate(profiles[1:], start=1):
        where = f"profiles[{index}]"
        if profile.plugins.queue_sort != first:
            lists = {"Enabled": profile.plugins.queue_sort.enabled, "Disabled": profile.plugins.queue_sort.disabled}
            queue_sort = {
                name: [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugins] or None
                for name, plugins in lists.items()
            }
            yield invalid(f"{where}.plugins.queueSort", queue_sort, "must be the same for all profiles")
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != args:
                queue_sort = msgspec.to_builtins(entry.args)
                yield invalid(f"{where}.pluginConfig.args", queue_sort, "queueSort must be the same for all profiles")


def _percentage(percentage: int | None, where: str) -> Iterator[ConfigError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(where, percentage, "not in valid range [0-100]")


def _managed_resource(resource: ManagedResource, where: str, managed: set[str]) -> Iterator[ConfigError]:
    name = resource.name
    is_native = "/" not in name or "kubernetes.io/" in name
    if problems := [*qualified_name(name)]:
        yield from (invalid(where, name, problem) for problem in problems)
    elif is_native or name.startswith("requests.") or any(qualified_name(f"requests.{name}")):
        yield invalid(where, name, "is an invalid extended resource name")
    if resource.name in managed:
        yield invalid(where, resource.name, "duplicate extender managed resource name")
