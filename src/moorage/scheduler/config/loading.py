"""Loading of a configuration: decode, default, validate, and report all problems together."""

import re
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import args as plugin_args
from moorage.scheduler.config.catalogue import KNOWN_PLUGINS, Catalogue, default_plugins
from moorage.scheduler.config.community_args import complete_community_args
from moorage.scheduler.config.construction import as_built, construction_problems
from moorage.scheduler.config.decoding import Decoder
from moorage.scheduler.config.merging import enabled_names, merge_plugins
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
    ProfileConfig,
    SchedulerConfiguration,
)
from moorage.scheduler.config.validation import validate

_DEFAULT_GATES = FeatureGates()
CONVERTIBLE = ("Policy", "ConfigMap")
"""Other kinds of old configurations."""
_A_PROFILE = re.compile(r"profiles\[\d+\]")


def load_config(
    text: str,
    *,
    source: str = "the configuration",
    gates: FeatureGates = _DEFAULT_GATES,
    catalogue: Catalogue = KNOWN_PLUGINS,
) -> SchedulerConfiguration:
    """Load a KubeSchedulerConfiguration, apply defaults and validate it; ConfigErrors contains all problems.

    `catalogue` lists the plugins; pass third-party plugins with the struct of their arguments.
    """
    try:
        return _load(text, source, gates, catalogue)
    except ConfigErrors as errors:
        # The problems name fields; the caller adds the file name.
        errors.add_note(source)
        raise


def _load(text: str, source: str, gates: FeatureGates, catalogue: Catalogue) -> SchedulerConfiguration:
    from moorage.scheduler.config.documents import (
        read_document,  # PyYAML, which a scheduler without a file does without
    )

    data, repeated = read_document(text, source)
    _check_header(data, source)
    body = {name: content for name, content in data.items() if name not in ("apiVersion", "kind")}
    _name_the_only_profile(body)

    decoder = Decoder(surplus=repeated)
    decoded = decoder.struct(SchedulerConfiguration, body, "") or SchedulerConfiguration()
    config = _decode_all_args(decoded, decoder, catalogue)
    if decoder.mismatches:
        raise ConfigErrors([*decoder.surplus, *decoder.mismatches, *_elsewhere(config, decoder, gates, catalogue)])
    return _completed_and_checked(config, gates, catalogue, decoder.surplus)


def _elsewhere(
    config: SchedulerConfiguration, decoder: Decoder, gates: FeatureGates, catalogue: Catalogue
) -> list[ConfigError]:
    """Return further problems that are not caused by values that could not be decoded."""
    if not config.profiles:
        return []  # none could be read, and nothing can be completed without
    completed = _complete(config, gates, catalogue)
    problems = [*validate(completed, gates)]
    problems += construction_problems(config, completed, catalogue, reported={error.where for error in problems})
    spoilt = {*decoder.shortened, *(_surroundings(error.where) for error in decoder.mismatches)}
    return [error for error in problems if not any(_touches(error.where, path) for path in spoilt)]


def _surroundings(path: str) -> str:
    """Return the struct that a place is in; the place itself if that is a profile, or the whole document."""
    parent = path.rpartition(".")[0]
    return path if not parent or _A_PROFILE.fullmatch(parent) else parent


def _touches(path: str, other_path: str) -> bool:
    shorter, longer = sorted((path, other_path), key=len)
    return longer == shorter or longer.startswith((f"{shorter}.", f"{shorter}["))


def load_config_file(
    path: str | Path, *, gates: FeatureGates = _DEFAULT_GATES, catalogue: Catalogue = KNOWN_PLUGINS
) -> SchedulerConfiguration:
    """Read a configuration from a file."""
    return load_config(read_config_text(path), source=str(path), gates=gates, catalogue=catalogue)


def read_config_text(path: str | Path) -> str:
    """Read the text of a file that is to have a configuration in it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), f"the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "the file is not UTF-8 text") from error


def default_config(
    *, gates: FeatureGates = _DEFAULT_GATES, catalogue: Catalogue = KNOWN_PLUGINS
) -> SchedulerConfiguration:
    """Return the configuration without a file: one profile with the default plugins."""
    only = ProfileConfig(scheduler_name=DEFAULT_SCHEDULER_NAME)
    return _completed_and_checked(SchedulerConfiguration(profiles=(only,)), gates, catalogue, [])


def _completed_and_checked(
    config: SchedulerConfiguration, gates: FeatureGates, catalogue: Catalogue, problems: list[ConfigError]
) -> SchedulerConfiguration:
    completed = _complete(config, gates, catalogue)
    all_problems = [*problems, *validate(completed, gates)]
    all_problems += construction_problems(
        config, completed, catalogue, reported={error.where for error in all_problems}
    )
    if all_problems:
        raise ConfigErrors(all_problems)
    return as_built(completed)


def _check_header(data: Any, source: str) -> None:
    correction = f"write apiVersion: {API_VERSION} and kind: {KIND}"
    if not isinstance(data, dict):
        content = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(source, f"expected a {KIND}, found {content}", hint=correction)
    for name, upstream_name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not data.get(name):
            raise ConfigError(source, f"Object '{upstream_name}' is missing", hint=correction)
    api_version, kind = data["apiVersion"], data["kind"]
    if (api_version, kind) != (API_VERSION, KIND):
        hint = did_you_mean(str(kind), [KIND]) if api_version == API_VERSION else ""
        if kind in (KIND, *CONVERTIBLE):
            hint = f"`moorage config convert {source}` writes it as {API_VERSION}"
        raise ConfigError(source, f"couldn't decode as {KIND}, got {api_version}, Kind={kind}", hint=hint or correction)


def _name_the_only_profile(body: dict[str, Any]) -> None:
    """Give a scheduler name to a profile that needs none: only when it is alone, and nothing was written."""
    profiles = body.get("profiles") or [{}]
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict | None):
        only = profiles[0] or {}
        if only.get("schedulerName") is None:
            profiles = [{**only, "schedulerName": DEFAULT_SCHEDULER_NAME}]
    body["profiles"] = profiles


def _decode_all_args(config: SchedulerConfiguration, decoder: Decoder, catalogue: Catalogue) -> SchedulerConfiguration:
    profiles = []
    for i, profile in enumerate(config.profiles):
        where, decoded = f"profiles[{i}].pluginConfig", []
        for j, entry in enumerate(profile.plugin_config):
            before = len(decoder.mismatches)
            args = _decode_args(entry, f"{where}[{j}]", decoder, catalogue)
            if args is None and len(decoder.mismatches) > before:
                decoder.shortened.append(where)
            else:
                decoded.append(PluginConfig(entry.name, args))
        profiles.append(replace(profile, plugin_config=tuple(decoded)))
    return replace(config, profiles=tuple(profiles))


def _decode_args(entry: PluginConfig, where: str, decoder: Decoder, catalogue: Catalogue) -> Any:
    facts = catalogue.get(entry.name)
    if facts is None or facts.args is None:
        return entry.args
    data = {} if entry.args is None else entry.args
    if isinstance(data, dict):
        if entry.name in KNOWN_PLUGINS:
            _check_kind_of_args(entry.name, data, where, decoder)
        data = {name: content for name, content in data.items() if name not in ("apiVersion", "kind")}
    return decoder.struct(facts.args, data, f"{where}.args")


def _check_kind_of_args(plugin: str, data: dict[str, Any], where: str, decoder: Decoder) -> None:
    expected_kind, group = f"{plugin}Args", API_VERSION.partition("/")[0]
    kind, api_version = data.get("kind") or expected_kind, data.get("apiVersion") or API_VERSION
    got_group = str(api_version).rpartition("/")[0]
    if (kind, got_group) != (expected_kind, group):
        text = f"args for plugin {plugin} were not of type {expected_kind}.{group}, got {kind}.{got_group}"
        decoder.mismatches.append(ConfigError(where, text, hint=f"write kind: {expected_kind}, or leave kind out"))
    elif api_version != API_VERSION:
        text = f'decoding args for plugin {plugin}: no kind "{kind}" is registered for version "{api_version}"'
        decoder.mismatches.append(ConfigError(where, text, hint=f"write apiVersion: {API_VERSION}, or leave it out"))


def _complete(config: SchedulerConfiguration, gates: FeatureGates, catalogue: Catalogue) -> SchedulerConfiguration:
    contention = config.enable_contention_profiling
    return replace(
        config,
        leader_election=_complete_leader_election(config.leader_election),
        client_connection=_complete_client_connection(config.client_connection),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
        profiles=tuple(_complete_profile(profile, gates, catalogue) for profile in config.profiles),
    )


def _complete_leader_election(election: LeaderElection) -> LeaderElection:
    # Upstream cannot distinguish an empty value from an absent one.
    default = LeaderElection()
    return LeaderElection(
        leader_elect=election.leader_elect,
        lease_duration=election.lease_duration or default.lease_duration,
        renew_deadline=election.renew_deadline or default.renew_deadline,
        retry_period=election.retry_period or default.retry_period,
        resource_lock=election.resource_lock or default.resource_lock,
        resource_name=election.resource_name or default.resource_name,
        resource_namespace=election.resource_namespace or default.resource_namespace,
    )


def _complete_client_connection(connection: ClientConnection) -> ClientConnection:
    return replace(
        connection,
        content_type=connection.content_type or ClientConnection().content_type,
        qps=DEFAULT_QPS if connection.qps == 0 else connection.qps,
        burst=DEFAULT_BURST if connection.burst == 0 else connection.burst,
    )


def _complete_profile(profile: ProfileConfig, gates: FeatureGates, catalogue: Catalogue) -> ProfileConfig:
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    own = tuple(
        replace(entry, args=complete_community_args(plugin_args.complete_args(entry.args, gates)))
        for entry in profile.plugin_config
    )
    configured = {entry.name for entry in own}
    defaulted = tuple(
        PluginConfig(name, plugin_args.complete_args(args_type(), gates))
        for name in _names_with_default_args(plugins)
        if name not in configured and (args_type := _defaultable_args(name, catalogue))
    )
    return replace(profile, plugins=plugins, plugin_config=(*own, *defaulted))


def _defaultable_args(name: str, catalogue: Catalogue) -> type[Struct] | None:
    facts = catalogue.get(name)
    return facts.args if facts and facts.args and not facts.required_args else None


def _names_with_default_args(plugins: Plugins) -> list[str]:
    # podGroupPostFilter is left out, as upstream does.
    return sorted({*enabled_names(replace(plugins, pod_group_post_filter=Plugins().pod_group_post_filter))})
