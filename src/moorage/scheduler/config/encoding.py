"""A completed configuration as kube-scheduler's --write-config-to writes it."""

import base64
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from moorage.kube.api.affinity import PreferredSchedulingTerm, TopologySpreadConstraint
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement
from moorage.kube.http.proxies import redacted
from moorage.scheduler.config.args import DynamicResourcesArgs, ResourceSpec
from moorage.scheduler.config.decoding import HIDDEN
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.expansion import enabled_names
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS
from moorage.scheduler.config.types import (
    API_VERSION,
    DEFAULT_BURST,
    DEFAULT_PERCENTAGE,
    DEFAULT_QPS,
    KIND,
    ExtenderConfig,
    PluginConfig,
    Plugins,
    ProfileConfig,
    SchedulerConfiguration,
)

#: Fields that Go prints even if they are empty, because they lack `omitempty`.
_ALWAYS: Final[Mapping[type, Collection[str]]] = {
    DynamicResourcesArgs: ("filterTimeout",),
    NodeSelector: ("nodeSelectorTerms",),
    NodeSelectorRequirement: ("key", "operator"),
    PreferredSchedulingTerm: ("weight", "preference"),
    ResourceSpec: ("name",),
    TopologySpreadConstraint: ("maxSkew", "topologyKey", "whenUnsatisfiable"),
}


def completed_view(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration as plain data with all defaults, and with arguments of enabled plugins only."""
    connection, percentage = config.client_connection, config.percentage_of_nodes_to_score
    qps = DEFAULT_QPS if connection.qps is None else connection.qps
    burst = DEFAULT_BURST if connection.burst is None else connection.burst
    view: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "clientConnection": {**_all_fields(connection), "qps": _float32(qps), "burst": burst},
        "leaderElection": _all_fields(config.leader_election),
        "enableContentionProfiling": bool(config.enable_contention_profiling),
        "enableProfiling": config.enable_profiling,
        "parallelism": config.parallelism,
        "percentageOfNodesToScore": DEFAULT_PERCENTAGE if percentage is None else percentage,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        "profiles": [_profile(profile) for profile in config.profiles],
    }
    if config.extenders:
        view["extenders"] = [_extender(extender) for extender in config.extenders]
    if config.percentage_of_placements_to_score is not None:
        view["percentageOfPlacementsToScore"] = config.percentage_of_placements_to_score
    if config.delay_cache_until_active:
        view["delayCacheUntilActive"] = True
    return view


def to_yaml(view: Mapping[str, Any]) -> str:
    """Print plain data as Kubernetes prints YAML: keys sorted, lists not indented, nothing wrapped."""
    from moorage.scheduler.config.yaml_text import dump  # PyYAML, which only this function needs

    return dump(view)


def to_json(view: Mapping[str, Any]) -> str:
    """Print plain data as indented JSON with sorted keys."""
    return json.dumps(view, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _profile(profile: ProfileConfig) -> dict[str, Any]:
    plugins = {
        point.encode_name: {
            field: [{"name": entry.name, "weight": entry.weight} for entry in entries]
            for field in ("enabled", "disabled")
            if (entries := getattr(getattr(profile.plugins, point.name), field))
        }
        for point in msgspec.structs.fields(Plugins)
        if getattr(profile.plugins, point.name) is not None
    }
    view: dict[str, Any] = {"schedulerName": profile.scheduler_name, "plugins": plugins}
    if profile.percentage_of_nodes_to_score is not None:
        view["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    if profile.percentage_of_placements_to_score is not None:
        view["percentageOfPlacementsToScore"] = profile.percentage_of_placements_to_score
    enabled = {*enabled_names(profile.plugins)}
    configs = [entry for entry in profile.plugin_config if entry.name in enabled and entry.args is not None]
    if configs:
        view["pluginConfig"] = [_plugin_config(entry) for entry in sorted(configs, key=lambda entry: entry.name)]
    return view


def _plugin_config(entry: PluginConfig) -> dict[str, Any]:
    args = entry.args
    if isinstance(args, msgspec.Struct):
        args = _written_fields(args)
        if entry.name in KNOWN_PLUGINS:
            args = {"apiVersion": API_VERSION, "kind": f"{entry.name}Args", **args}
    return {"name": entry.name, "args": args}


def without_secrets(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completed view as it may be logged: no keys or tokens, and no passwords in URLs."""
    profiles = [
        {**profile, "pluginConfig": [{**entry, "args": _redact_args(entry["args"])} for entry in entries]}
        if (entries := profile.get("pluginConfig"))
        else {**profile}
        for profile in view.get("profiles") or ()
    ]
    extenders = {"extenders": [_redact_extender(entry) for entry in view["extenders"]]} if view.get("extenders") else {}
    return {**view, **extenders, "profiles": profiles}


def _redact_args(args: Any) -> Any:
    """Redact the credentials of metrics providers."""
    if not isinstance(args, dict):
        return args
    redacted_args = {**args}
    if isinstance(watcher := args.get("watcherAddress"), str):
        redacted_args["watcherAddress"] = redacted(watcher)
    if isinstance(provider := args.get("metricProvider"), dict):
        redacted_token = {"token": HIDDEN} if provider.get("token") else {}
        address = {"address": redacted(provider["address"])} if isinstance(provider.get("address"), str) else {}
        redacted_args["metricProvider"] = {**provider, **address, **redacted_token}
    return redacted_args


def _redact_extender(extender: Mapping[str, Any]) -> dict[str, Any]:
    redacted_extender = {**extender, "urlPrefix": redacted(extender["urlPrefix"])}
    if "keyData" in extender.get("tlsConfig", {}):
        redacted_extender["tlsConfig"] = {**extender["tlsConfig"], "keyData": HIDDEN}
    return redacted_extender


def _extender(extender: ExtenderConfig) -> dict[str, Any]:
    view = {name: content for name, content in _all_fields(extender).items() if content or name == "httpTimeout"}
    view["urlPrefix"] = extender.url_prefix
    if extender.managed_resources:
        view["managedResources"] = [
            {"name": resource.name, **({"ignoredByScheduler": True} if resource.ignored_by_scheduler else {})}
            for resource in extender.managed_resources
        ]
    if extender.tls_config is not None:
        view["tlsConfig"] = {name: content for name, content in _all_fields(extender.tls_config).items() if content}
    return view


def _all_fields(value: msgspec.Struct) -> dict[str, Any]:
    return {info.encode_name: _plain(getattr(value, info.name)) for info in msgspec.structs.fields(value)}


def _written_fields(value: msgspec.Struct) -> dict[str, Any]:
    """Omit absent values, empty texts and empty lists, as Go's omitempty does."""
    always = _ALWAYS.get(type(value), ())
    fields = _all_fields(value).items()
    return {name: content for name, content in fields if name in always or content not in (None, "", [])}


def _plain(value: Any) -> Any:
    match value:
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case msgspec.Struct():
            return _written_fields(value)
        case str() | None:
            return value
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return value


def _float32(number: float) -> int | float:
    """Print a Go float32: the shortest decimal that reads back as the same one."""
    packed = struct.pack("f", number)
    candidates = (float(f"{number:.{digits}g}") for digits in range(1, 18))
    value = next(candidate for candidate in candidates if struct.pack("f", candidate) == packed)
    return int(value) if value.is_integer() else value
