"""Upstream's checks of a completed configuration, in upstream's order and words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from moorage.common.errors import ConfigError
from moorage.kube.admission.checks.names import label_value, qualified_name
from moorage.kube.api.affinity import NodeAffinity, TopologySpreadConstraint
from moorage.kube.api.selectors import NODE_OPERATORS, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.args import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    binding_timeout_applies,
)
from moorage.scheduler.config.contrib_args import contrib_args_problems
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.plugin_facts import REMOVED
from moorage.scheduler.config.problems import duplicate, forbidden, invalid, required, unsupported
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
_NOT_SEARCHED_FOR_REMOVED = ("multi_point", "placement_generate", "placement_score", "placement_feasible")


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
        location = f"profiles[{index}]"
        yield from _profile(profile, location, gates)
        if profile.scheduler_name in seen_names:
            # Upstream prints the first profile here, which its error formats as an empty object.
            hint = f"profiles[{seen_names[profile.scheduler_name]}] has the name {profile.scheduler_name!r} already"
            yield duplicate(f"{location}.schedulerName", {}, hint=hint)
        seen_names[profile.scheduler_name] = index
    yield from _common_queue_sort(config.profiles)
    yield from _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    yield from _percentage(config.percentage_of_placements_to_score, "percentageOfPlacementsToScore")
    initial, maximum = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if maximum < initial:
        yield invalid("podMaxBackoffSeconds", maximum, "must be greater than or equal to PodInitialBackoffSeconds")
    managed: set[str] = set()
    for index, extender in enumerate(config.extenders):
        location = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{location}.weight", extender.weight, "must have a positive weight applied to it")
        for number, resource in enumerate(extender.managed_resources):
            yield from _managed_resource(resource, f"{location}.managedResources[{number}].name", managed)
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
        location, deadline = "leaderElection.leaseDuration", election.renew_deadline
        yield invalid(location, deadline, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _profile(profile: ProfileConfig, location: str, gates: FeatureGates) -> Iterator[ConfigError]:
    if not profile.scheduler_name:
        hint = "schedulerName has a default only if there is a single profile"
        yield required(f"{location}.schedulerName", hint=hint)
    yield from _percentage(profile.percentage_of_nodes_to_score, f"{location}.percentageOfNodesToScore")
    yield from _percentage(profile.percentage_of_placements_to_score, f"{location}.percentageOfPlacementsToScore")
    yield from _removed_plugins(profile.plugins, f"{location}.plugins")
    seen_names: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        field_path = f"{location}.pluginConfig[{index}]"
        if entry.name in seen_names:
            yield duplicate(field_path, entry.name)
        seen_names.add(entry.name)
        if entry.name in REMOVED:
            yield _make_removed_error(field_path, entry.name)
        else:
            yield from args_problems(entry.args, f"{field_path}.args", gates)


def _removed_plugins(plugins: Plugins, location: str) -> Iterator[ConfigError]:
    for field in msgspec.structs.fields(Plugins):
        if field.name not in _NOT_SEARCHED_FOR_REMOVED:
            plugin_set: PluginSet = getattr(plugins, field.name) or PluginSet()
            for index, plugin in enumerate(plugin_set.enabled):
                if plugin.name in REMOVED:
                    yield _make_removed_error(f"{location}.{field.encode_name}.enabled[{index}]", plugin.name)


def _make_removed_error(location: str, name: str) -> ConfigError:
    # The first version is upstream's slip: it prints the core API's.
    text = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(location, name, text)


def _common_queue_sort(profiles: tuple[ProfileConfig, ...]) -> Iterator[ConfigError]:
    first = profiles[0].plugins.queue_sort
    name = first.enabled[0].name if first.enabled else ""
    if len(first.enabled) > 1:
        location = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(location, len(first.enabled), "only one queue sort plugin can be enabled")
    args = profiles[0].find_args(name) if name else None
    for index, profile in enumerate(profiles[1:], start=1):
        location = f"profiles[{index}]"
        if profile.plugins.queue_sort != first:
            lists = {"Enabled": profile.plugins.queue_sort.enabled, "Disabled": profile.plugins.queue_sort.disabled}
            queue_sort = {
                name: [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugins] or None
                for name, plugins in lists.items()
            }
            yield invalid(f"{location}.plugins.queueSort", queue_sort, "must be the same for all profiles")
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != args:
                queue_sort = msgspec.to_builtins(entry.args)
                yield invalid(
                    f"{location}.pluginConfig.args", queue_sort, "queueSort must be the same for all profiles"
                )


def _percentage(percentage: int | None, location: str) -> Iterator[ConfigError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(location, percentage, "not in valid range [0-100]")


def _managed_resource(resource: ManagedResource, location: str, managed: set[str]) -> Iterator[ConfigError]:
    name = resource.name
    is_native = "/" not in name or "kubernetes.io/" in name
    if problems := [*qualified_name(name)]:
        yield from (invalid(location, name, problem) for problem in problems)
    elif is_native or name.startswith("requests.") or any(qualified_name(f"requests.{name}")):
        yield invalid(location, name, "is an invalid extended resource name")
    if resource.name in managed:
        yield invalid(location, resource.name, "duplicate extender managed resource name")


_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_SECOND = Duration.of(seconds=1)


def args_problems(args: Any, location: str, gates: FeatureGates) -> Iterator[ConfigError]:
    """Yield the problems of arguments. Those of NodeResourcesFit and of third-party plugins are checked elsewhere."""
    match args:
        case DefaultPreemptionArgs():
            percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
            by_percentage, by_number = (
                f"{location}.minCandidateNodesPercentage",
                f"{location}.minCandidateNodesAbsolute",
            )
            if not 0 <= percentage <= 100:
                yield invalid(by_percentage, percentage, "not in valid range [0, 100]")
            if absolute < 0:
                yield invalid(by_number, absolute, "not in valid range [0, inf)")
            if percentage == absolute == 0:
                yield invalid(by_percentage, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute")
                yield invalid(by_number, absolute, "cannot be zero at the same time as minCandidateNodesPercentage")
        case InterPodAffinityArgs(hard_pod_affinity_weight=weight):
            if not 0 <= weight <= 100:
                yield invalid(f"{location}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")
        case NodeAffinityArgs(added_affinity=affinity):
            if affinity is not None:
                yield from _node_affinity(affinity, f"{location}.addedAffinity")
        case NodeResourcesBalancedAllocationArgs():
            yield from _balanced_allocation(args, location)
        case PodTopologySpreadArgs():
            yield from _topology_spread(args, location)
        case VolumeBindingArgs():
            yield from _volume_binding(args, location, gates)
        case DynamicResourcesArgs():
            yield from _dynamic_resources(args, location, gates)
        case _:
            yield from contrib_args_problems(args, location)


def fit_args_problems(args: NodeResourcesFitArgs, location: str) -> Iterator[ConfigError]:
    """Yield the problems that NodeResourcesFit finds in its arguments when it is built."""
    for index, resource in enumerate(args.ignored_resources):
        yield from _label_key(resource, f"{location}.ignoredResources[{index}]")
    for index, group in enumerate(args.ignored_resource_groups):
        field_path = f"{location}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield invalid(field_path, group, "resource group name can't contain '/'")
        yield from _label_key(group, field_path)
    yield from _scoring_strategy(args.scoring_strategy, f"{location}.scoringStrategy")


def _scoring_strategy(strategy: ScoringStrategy, location: str) -> Iterator[ConfigError]:
    if strategy.type not in _STRATEGIES:
        yield unsupported(f"{location}.type", strategy.type, _STRATEGIES)
    for index, spec in enumerate(strategy.resources):
        if not 0 < spec.weight <= 100:
            text = f"resource weight of {spec.name} not in valid range (0, 100]"
            yield invalid(f"{location}.resources[{index}].weight", spec.weight, text)
    ratio, field_path = strategy.requested_to_capacity_ratio, f"{location}.requestedToCapacityRatio"
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        if ratio is None:
            yield required(field_path, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from _shape(ratio.shape, f"{field_path}.shape")
    elif ratio is not None:
        yield forbidden(field_path, "must be nil when type is not RequestedToCapacityRatio")


def _node_affinity(affinity: NodeAffinity, location: str) -> Iterator[ConfigError]:
    if affinity.required is not None:
        field_path = f"{location}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(affinity.required.node_selector_terms):
            yield from _selector_term(term, f"{field_path}[{index}]")
    for index, preferred in enumerate(affinity.preferred or ()):
        # A preference without weight has no effect.
        if preferred.weight != 0:
            field_path = f"{location}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield from _selector_term(preferred.preference, field_path)


def _selector_term(term: NodeSelectorTerm, location: str) -> Iterator[ConfigError]:
    for index, expression in enumerate(term.match_expressions):
        yield from _expression(expression, f"{location}.matchExpressions[{index}]")
    for index, field in enumerate(term.match_fields):
        field_path = f"{location}.matchFields[{index}]"
        if field.operator not in ("In", "NotIn"):
            yield unsupported(f"{field_path}.operator", field.operator, ("In", "NotIn"))
        elif len(field.values) != 1:
            yield invalid(f"{field_path}.values", list(field.values) or None, "must have one element")


def _expression(expression: NodeSelectorRequirement, location: str) -> Iterator[ConfigError]:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in NODE_OPERATORS:
        yield unsupported(f"{location}.operator", operator, NODE_OPERATORS)
        return
    if problems := [*qualified_name(key)]:
        yield invalid(f"{location}.key", key, "; ".join(problems))
    yield from _number_of_values(operator, values, f"{location}.values")
    for index, value in enumerate(values):
        if problems := [*label_value(value)]:
            yield invalid(f"{location}.values[{index}][{key}]", value, "; ".join(problems))


def _number_of_values(operator: str, values: Sequence[str], location: str) -> Iterator[ConfigError]:
    if operator in ("In", "NotIn") and not values:
        yield invalid(location, None, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(location, list(values), "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(location, list(values) or None, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not (re.fullmatch(r"[+-]?\d+", value, re.ASCII) and -(2**63) <= int(value) < 2**63):
                text = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield invalid(f"{location}[{index}]", value, text)


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, location: str) -> Iterator[ConfigError]:
    seen_names: set[str] = set()
    for index, spec in enumerate(args.resources):
        field_path = f"{location}.resources[{index}]"
        if spec.name in seen_names:
            yield duplicate(f"{field_path}.name", spec.name)
        seen_names.add(spec.name)
        if spec.weight != 1:
            yield invalid(f"{field_path}.weight", spec.weight, "must be 1")


def _topology_spread(args: PodTopologySpreadArgs, location: str) -> Iterator[ConfigError]:
    defaulting = args.defaulting_type
    if defaulting not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
        yield unsupported(f"{location}.defaultingType", defaulting, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
    elif defaulting == SYSTEM_DEFAULTING and args.default_constraints:
        hint = "write defaultingType: List to use your own constraints"
        yield invalid(f"{location}.defaultingType", defaulting, "when .defaultConstraints are not empty", hint=hint)
    seen_names: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        field_path = f"{location}.defaultConstraints[{index}]"
        yield from _constraint(constraint, field_path)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen_names:
            yield duplicate(field_path, "{" + ", ".join(pair) + "}")
        seen_names.add(pair)


def _constraint(constraint: TopologySpreadConstraint, location: str) -> Iterator[ConfigError]:
    if constraint.max_skew <= 0:
        yield invalid(f"{location}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        yield from _label_key(constraint.topology_key, f"{location}.topologyKey")
    else:
        yield required(f"{location}.topologyKey", "can not be empty")
    action = constraint.when_unsatisfiable
    if not action:
        yield required(f"{location}.whenUnsatisfiable", "can not be empty")
    elif action not in _ACTIONS:
        yield unsupported(f"{location}.whenUnsatisfiable", action, _ACTIONS)
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{location}.labelSelector", text)


def _volume_binding(args: VolumeBindingArgs, location: str, gates: FeatureGates) -> Iterator[ConfigError]:
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{location}.bindTimeoutSeconds", args.bind_timeout_seconds, text)
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(args.shape, f"{location}.shape")
    elif args.shape:
        shape = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(f"{location}.shape", shape, text)


def _dynamic_resources(args: DynamicResourcesArgs, location: str, gates: FeatureGates) -> Iterator[ConfigError]:
    filtering, binding = args.filter_timeout, args.binding_timeout
    if filtering is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield forbidden(f"{location}.filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
        elif filtering.nanoseconds < 0:
            yield invalid(f"{location}.filterTimeout", filtering, "must be zero or positive")
    if binding is not None:
        if not binding_timeout_applies(gates):
            text = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield forbidden(f"{location}.bindingTimeout", text)
        elif binding < _SECOND:
            yield invalid(f"{location}.bindingTimeout", binding, "must be at least 1 second")


def _shape(points: Sequence[UtilizationShapePoint], location: str) -> Iterator[ConfigError]:
    if not points:
        yield required(location, "at least one point must be specified")
    for index in range(1, len(points)):
        if points[index - 1].utilization >= points[index].utilization:
            field_path = f"{location}[{index}].utilization"
            yield invalid(field_path, points[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{location}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{location}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")


def _label_key(name: str, location: str) -> Iterator[ConfigError]:
    return (invalid(location, name, problem) for problem in qualified_name(name))
