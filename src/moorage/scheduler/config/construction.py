"""Checks that upstream makes only when it builds the scheduler.

Unknown plugins, invalid plugin lists, arguments of NodeResourcesFit, and resources that extenders ignore.
"""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import fields, replace

from moorage.common.errors import ConfigError, ConfigErrors, UnknownPluginError
from moorage.scheduler.config.args import NodeResourcesFitArgs
from moorage.scheduler.config.args_validation import fit_args_problems
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.expansion import enabled_names, expand_plugins
from moorage.scheduler.config.plugin_facts import REMOVED, Catalogue
from moorage.scheduler.config.types import Plugins, PluginSet, ProfileConfig, SchedulerConfiguration

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
        where = f"profiles[{index}]"
        unknown = [*_unknown_plugins(own, catalogue, f"{where}.plugins")]
        problems += [error for error in unknown if error.where not in reported]
        if not unknown:
            problems += _expansion_problems(profile, catalogue, where)
        problems += _fit_problems(profile, where)
        problems += _missing_args(profile, catalogue, f"{where}.pluginConfig")
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


def _unknown_plugins(profile: ProfileConfig, catalogue: Catalogue, where: str) -> Iterator[ConfigError]:
    for field in fields(Plugins):
        plugin_set: PluginSet = getattr(profile.plugins, field.name)
        for index, plugin in enumerate(plugin_set.enabled):
            if plugin.name not in catalogue:
                field_path = f"{where}.{field.encode_name}.enabled[{index}]"
                if plugin.name in REMOVED:
                    text = f"plugin {plugin.name} was removed from Kubernetes"
                    yield ConfigError(field_path, text, hint="NodeVolumeLimits does its work")
                else:
                    yield UnknownPluginError(plugin.name, where=field_path, known=catalogue)


def _missing_args(profile: ProfileConfig, catalogue: Catalogue, where: str) -> Iterator[ConfigError]:
    configured = {entry.name for entry in profile.plugin_config}
    for name in sorted({*enabled_names(profile.plugins)} - configured):
        facts = catalogue.get(name)
        if facts and facts.args:
            # Plugins of podGroupPostFilter alone, and arguments without defaults, get no default arguments.
            text = f'initializing plugin "{name}": got args of type <nil>, want *{facts.args.__name__}'
            required = f" with {', '.join(facts.required_args)}" if facts.required_args else ""
            yield ConfigError(where, text, hint=f"give {name} an entry in pluginConfig{required}")


def _expansion_problems(profile: ProfileConfig, catalogue: Catalogue, where: str) -> list[ConfigError]:
    try:
        expand_plugins(profile, lambda name: facts.points if (facts := catalogue.get(name)) else None, where=where)
    except ConfigErrors as errors:
        return list(errors.errors)
    except ConfigError as error:
        return [error]
    return []


def _fit_problems(profile: ProfileConfig, where: str) -> Iterator[ConfigError]:
    """Check NodeResourcesFit's arguments here: upstream's file check looks for them under a wrong name."""
    if FIT not in enabled_names(profile.plugins):
        return
    for index, entry in enumerate(profile.plugin_config):
        if entry.name == FIT and isinstance(entry.args, NodeResourcesFitArgs):
            yield from fit_args_problems(entry.args, f"{where}.pluginConfig[{index}].args")
