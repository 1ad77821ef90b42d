"""Loading of a configuration: decode, default, validate, and report all problems together."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict, fields, replace

from moorage.common.errors import ConfigError, ConfigErrors, InputError, UnknownPluginError, comment_hint, did_you_mean
from moorage.common.text import describe_type
from moorage.common.user_files import read_text
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import args as plugin_args
from moorage.scheduler.config.args import NodeResourcesFitArgs
from moorage.scheduler.config.contrib_args import complete_contrib_args
from moorage.scheduler.config.decoding import Decoder
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.expansion import enabled_names, expand_plugins, merge_plugins
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS, REMOVED, Catalogue, default_plugins
from moorage.scheduler.config.types import (
    API_VERSION,
    DEFAULT_BURST,
    DEFAULT_QPS,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    ClientConnection,
    LeaderElection,
    PluginConfig,
    Plugins,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from moorage.scheduler.config.validation import fit_args_problems, validate

_DEFAULT_GATES = FeatureGates()
CONVERTIBLE = ("Policy", "ConfigMap")
"""Other kinds that old configurations use."""
_IN_A_PROFILE = "it belongs under profiles: write it into an element of that list"
_FLAGS = "it was removed: write the flags --bind-address and --secure-port"
FORMER_FIELDS = {
    **dict.fromkeys(("schedulerName", "plugins", "pluginConfig"), _IN_A_PROFILE),
    "algorithmSource": "it was replaced by profiles; omit it for the default plugins",
    "disablePreemption": "it belongs under profiles: disable DefaultPreemption in plugins.postFilter",
    "hardPodAffinitySymmetricWeight": "it belongs under profiles: hardPodAffinityWeight in InterPodAffinity's args",
    "bindTimeoutSeconds": "it belongs under profiles: bindTimeoutSeconds in VolumeBinding's args",
    "healthzBindAddress": _FLAGS,
    "metricsBindAddress": _FLAGS,
    "featureGates": "write the flag --feature-gates",
    "leaderElection.lockObjectName": "it was renamed: write resourceName",
    "leaderElection.lockObjectNamespace": "it was renamed: write resourceNamespace",
}
"""Fields of older versions, and their replacements."""
_A_PROFILE = re.compile(r"profiles\[\d+\]")


FIELDS_OF_1_38: Final = frozenset(["placementFeasible", "percentageOfPlacementsToScore"])


def load_config(
    text: str,
    *,
    source: str = "the configuration",
    gates: FeatureGates = _DEFAULT_GATES,
    catalogue: Catalogue = KNOWN_PLUGINS,
) -> SchedulerConfiguration:
    """Load a KubeSchedulerConfiguration, apply defaults and validate it; ConfigErrors contains all problems.

    `catalogue` lists the plugins. Pass third-party plugins with the struct of their arguments.
    """
    try:
        return _load(text, source, gates, catalogue)
    except ConfigErrors as errors:
        # The problems name fields. The caller adds the file name.
        errors.add_note(source)
        raise


def _load(text: str, source: str, gates: FeatureGates, catalogue: Catalogue) -> SchedulerConfiguration:
    from moorage.scheduler.config.yaml_text import read_document

    data, repeated = read_document(text, source)
    _check_header(data, source)
    body = {name: content for name, content in data.items() if name not in ("apiVersion", "kind")}
    # A single profile needs no name.
    profiles = body.get("profiles") or [{}]
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict | None):
        only_profile = profiles[0] or {}
        if only_profile.get("schedulerName") is None:
            profiles = [{**only_profile, "schedulerName": DEFAULT_SCHEDULER_NAME}]
    body["profiles"] = profiles

    later = frozenset() if gates.since(1, 38) else FIELDS_OF_1_38
    decoder = Decoder(surplus=repeated, replaced=FORMER_FIELDS, later=later)
    decoded = decoder.struct(SchedulerConfiguration, body, "") or SchedulerConfiguration()
    config = _decode_all_args(decoded, decoder, catalogue)
    if decoder.mismatches:
        raise ConfigErrors(
            [*decoder.surplus, *decoder.mismatches, *_find_independent_problems(config, decoder, gates, catalogue)]
        )
    return _build(config, gates, catalogue, decoder.surplus)


def _find_independent_problems(
    config: SchedulerConfiguration, decoder: Decoder, gates: FeatureGates, catalogue: Catalogue
) -> list[ConfigError]:
    """Return the problems that undecoded values did not cause."""
    if not config.profiles:
        return []  # none could be decoded, and the configuration cannot be completed without
    _, problems = _complete_and_check(config, gates, catalogue)
    undecoded_paths = {*decoder.shortened, *(_parent_path(error.where) for error in decoder.mismatches)}
    return [error for error in problems if not any(_overlaps(error.where, path) for path in undecoded_paths)]


def _parent_path(path: str) -> str:
    """Return the path of the surrounding struct; the path itself in a profile or at the top level."""
    parent = path.rpartition(".")[0]
    return path if not parent or _A_PROFILE.fullmatch(parent) else parent


def _overlaps(path: str, other_path: str) -> bool:
    shorter, longer = sorted((path, other_path), key=len)
    return longer == shorter or longer.startswith((f"{shorter}.", f"{shorter}["))


def load_config_file(
    path: str | Path, *, gates: FeatureGates = _DEFAULT_GATES, catalogue: Catalogue = KNOWN_PLUGINS, where: str = ""
) -> SchedulerConfiguration:
    """Read a configuration from a file. ``where`` is the flag that names it."""
    return load_config(read_config_text(path, where=where), source=str(path), gates=gates, catalogue=catalogue)


def read_config_text(path: str | Path, *, where: str = "") -> str:
    """Read the text of a configuration file."""
    try:
        return read_text(path, where=where, hint="check the path" if where else "")
    except InputError as error:
        raise ConfigError(error.where, error.problem, hint=error.hint) from error


def default_config(
    *, gates: FeatureGates = _DEFAULT_GATES, catalogue: Catalogue = KNOWN_PLUGINS
) -> SchedulerConfiguration:
    """Return the configuration without a file: one profile with the default plugins."""
    profile = ProfileConfig(scheduler_name=DEFAULT_SCHEDULER_NAME)
    return _build(SchedulerConfiguration(profiles=(profile,)), gates, catalogue)


def _build(
    config: SchedulerConfiguration, gates: FeatureGates, catalogue: Catalogue, problems: Sequence[ConfigError] = ()
) -> SchedulerConfiguration:
    completed, further = _complete_and_check(config, gates, catalogue, problems)
    if all_problems := [*problems, *further]:
        raise ConfigErrors(all_problems)
    return as_built(completed)


def _complete_and_check(
    config: SchedulerConfiguration, gates: FeatureGates, catalogue: Catalogue, reported: Sequence[ConfigError] = ()
) -> tuple[SchedulerConfiguration, list[ConfigError]]:
    """Return a configuration with all defaults, and its problems that are not reported yet."""
    completed = _complete(config, gates, catalogue)
    problems = [*validate(completed, gates)]
    locations = {error.where for error in (*reported, *problems)}
    return completed, [*problems, *construction_problems(config, completed, catalogue, reported=locations)]


def _check_header(data: Any, source: str) -> None:
    correction = f"write apiVersion: {API_VERSION} and kind: {KIND}"
    if not isinstance(data, dict):
        content = "nothing" if data is None else describe_type(data)
        raise ConfigError(source, f"expected a {KIND}, found {content}", hint=comment_hint(data) or correction)
    for name, upstream_name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not data.get(name):
            hint = next(filter(None, map(comment_hint, data)), correction)
            raise ConfigError(source, f"Object '{upstream_name}' is missing", hint=hint)
    api_version, kind = data["apiVersion"], data["kind"]
    if (api_version, kind) != (API_VERSION, KIND):
        hint = did_you_mean(str(kind), [KIND]) if api_version == API_VERSION else ""
        if kind in (KIND, *CONVERTIBLE):
            hint = f"convert it with: moorage config convert {source}"
        hint = comment_hint(api_version) or comment_hint(kind) or hint
        raise ConfigError(source, f"couldn't decode as {KIND}, got {api_version}, Kind={kind}", hint=hint or correction)


def _decode_all_args(config: SchedulerConfiguration, decoder: Decoder, catalogue: Catalogue) -> SchedulerConfiguration:
    profiles = []
    for i, profile in enumerate(config.profiles):
        location, decoded = f"profiles[{i}].pluginConfig", []
        for j, entry in enumerate(profile.plugin_config):
            before = len(decoder.mismatches)
            args = _decode_args(entry, f"{location}[{j}]", decoder, catalogue)
            if args is None and len(decoder.mismatches) > before:
                decoder.shortened.append(location)
            else:
                decoded.append(PluginConfig(entry.name, args))
        profiles.append(replace(profile, plugin_config=tuple(decoded)))
    return replace(config, profiles=tuple(profiles))


def _decode_args(entry: PluginConfig, location: str, decoder: Decoder, catalogue: Catalogue) -> Any:
    facts = catalogue.get(entry.name)
    if facts is None or facts.args is None:
        return entry.args
    data = {} if entry.args is None else entry.args
    if isinstance(data, dict):
        if entry.name in KNOWN_PLUGINS:
            _check_kind_of_args(entry.name, data, location, decoder)
        data = {name: content for name, content in data.items() if name not in ("apiVersion", "kind")}
    return decoder.struct(facts.args, data, f"{location}.args")


def _check_kind_of_args(plugin: str, data: dict[str, Any], location: str, decoder: Decoder) -> None:
    expected_kind, group = f"{plugin}Args", API_VERSION.partition("/")[0]
    kind, api_version = data.get("kind") or expected_kind, data.get("apiVersion") or API_VERSION
    got_group = str(api_version).rpartition("/")[0]
    if (kind, got_group) != (expected_kind, group):
        text = f"args for plugin {plugin} were not of type {expected_kind}.{group}, got {kind}.{got_group}"
        decoder.mismatches.append(ConfigError(location, text, hint=f"write kind: {expected_kind}, or omit kind"))
    elif api_version != API_VERSION:
        text = f'decoding args for plugin {plugin}: no kind "{kind}" is registered for version "{api_version}"'
        decoder.mismatches.append(ConfigError(location, text, hint=f"write apiVersion: {API_VERSION}, or omit it"))


def _complete(config: SchedulerConfiguration, gates: FeatureGates, catalogue: Catalogue) -> SchedulerConfiguration:
    election, connection = config.leader_election, config.client_connection
    contention = config.enable_contention_profiling
    # Upstream cannot distinguish an empty value from an absent one.
    defaults = {name: value for name, value in asdict(LeaderElection()).items() if not getattr(election, name)}
    return replace(
        config,
        leader_election=replace(election, **{**defaults, "leader_elect": election.leader_elect}),
        client_connection=replace(
            connection,
            content_type=connection.content_type or ClientConnection().content_type,
            qps=DEFAULT_QPS if connection.qps == 0 else connection.qps,
            burst=DEFAULT_BURST if connection.burst == 0 else connection.burst,
        ),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
        profiles=tuple(_complete_profile(profile, gates, catalogue) for profile in config.profiles),
    )


def _complete_profile(profile: ProfileConfig, gates: FeatureGates, catalogue: Catalogue) -> ProfileConfig:
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    own = tuple(
        replace(entry, args=complete_contrib_args(plugin_args.complete_args(entry.args, gates)))
        for entry in profile.plugin_config
    )
    # As upstream, podGroupPostFilter does not count.
    enabled = {*enabled_names(replace(plugins, pod_group_post_filter=PluginSet()))}
    facts = {name: catalogue[name] for name in sorted(enabled - {entry.name for entry in own}) if name in catalogue}
    defaulted = tuple(
        PluginConfig(name, plugin_args.complete_args(plugin.args(), gates))
        for name, plugin in facts.items()
        if plugin.args is not None and not plugin.required_args
    )
    return replace(profile, plugins=plugins, plugin_config=(*own, *defaulted))


FIT: Final = "NodeResourcesFit"
EXTENDER_TIMEOUT: Final = Duration.of(seconds=5)


def construction_problems(
    configured: SchedulerConfiguration,
    completed: SchedulerConfiguration,
    catalogue: Catalogue,
    *,
    reported: Collection[str],
) -> list[ConfigError]:
    """Return the problems of building the profiles, except at places in `reported`."""
    problems: list[ConfigError] = []
    for index, (own, profile) in enumerate(zip(configured.profiles, completed.profiles, strict=True)):
        location = f"profiles[{index}]"
        unknown = [*_unknown_plugins(own, catalogue, f"{location}.plugins")]
        problems += [error for error in unknown if error.where not in reported]
        if not unknown:
            problems += _expansion_problems(profile, catalogue, location)
        problems += _fit_problems(profile, location)
        problems += _missing_args(profile, catalogue, f"{location}.pluginConfig")
    if _ignored_resources(completed) and any(profile.find_args(FIT) is None for profile in completed.profiles):
        problems.append(ConfigError("extenders", "can't find NodeResourcesFitArgs in plugin config"))
    return problems


def as_built(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Apply changes that upstream makes when it builds the scheduler.

    Extenders get a default timeout, and their managed resources replace the ignored resources of NodeResourcesFit.
    """
    extenders = tuple(
        replace(extender, http_timeout=extender.http_timeout or EXTENDER_TIMEOUT) for extender in config.extenders
    )
    profiles = config.profiles
    if ignored := _ignored_resources(config):
        profiles = tuple(
            replace(
                profile,
                plugin_config=tuple(
                    replace(entry, args=replace(entry.args, ignored_resources=ignored)) if entry.name == FIT else entry
                    for entry in profile.plugin_config
                ),
            )
            for profile in profiles
        )
    return replace(config, profiles=profiles, extenders=extenders)


def _ignored_resources(config: SchedulerConfiguration) -> tuple[str, ...]:
    return tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def _unknown_plugins(profile: ProfileConfig, catalogue: Catalogue, location: str) -> Iterator[ConfigError]:
    for field in fields(Plugins):
        plugin_set: PluginSet = getattr(profile.plugins, field.name) or PluginSet()
        for index, plugin in enumerate(plugin_set.enabled):
            if plugin.name not in catalogue:
                field_path = f"{location}.{field.encode_name}.enabled[{index}]"
                if plugin.name in REMOVED:
                    text = f"plugin {plugin.name} was removed from Kubernetes"
                    yield ConfigError(field_path, text, hint="NodeVolumeLimits replaces it")
                else:
                    yield UnknownPluginError(plugin.name, where=field_path, names=catalogue)


def _missing_args(profile: ProfileConfig, catalogue: Catalogue, location: str) -> Iterator[ConfigError]:
    configured = {entry.name for entry in profile.plugin_config}
    for name in sorted({*enabled_names(profile.plugins)} - configured):
        facts = catalogue.get(name)
        if facts and facts.args:
            # Plugins of podGroupPostFilter alone, and arguments without defaults, get no default arguments.
            text = f'initializing plugin "{name}": got args of type <nil>, want *{facts.args.__name__}'
            required = f" with {', '.join(facts.required_args)}" if facts.required_args else ""
            yield ConfigError(location, text, hint=f"add an entry for {name} to pluginConfig{required}")


def _expansion_problems(profile: ProfileConfig, catalogue: Catalogue, location: str) -> list[ConfigError]:
    try:
        expand_plugins(profile, lambda name: facts.points if (facts := catalogue.get(name)) else None, where=location)
    except ConfigErrors as errors:
        return list(errors.errors)
    except ConfigError as error:
        return [error]
    return []


def _fit_problems(profile: ProfileConfig, location: str) -> Iterator[ConfigError]:
    """Check NodeResourcesFit's arguments here: upstream's file check looks for them under a wrong name."""
    if FIT not in enabled_names(profile.plugins):
        return
    for index, entry in enumerate(profile.plugin_config):
        if entry.name == FIT and isinstance(entry.args, NodeResourcesFitArgs):
            yield from fit_args_problems(entry.args, f"{location}.pluginConfig[{index}].args")
