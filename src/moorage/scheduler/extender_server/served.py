"""The plugins that an extender serves, and its entry for kube-scheduler's configuration.

An extender serves filters, scores and binding of some plugins of a profile.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME
from moorage.scheduler.config import (
    ExtensionPoint,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileConfig,
    expand_plugins,
)
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.wiring.policy import Policy, build_catalogue

SORT: Final = "PrioritySort"
BINDER: Final = "DefaultBinder"
PREEMPTION: Final = "DefaultPreemption"

REFUSED: Final[Mapping[ExtensionPoint, str]] = {
    ExtensionPoint.PRE_ENQUEUE: (
        "kube-scheduler calls extenders only during a scheduling cycle, not before a pod is queued"
    ),
    ExtensionPoint.QUEUE_SORT: "kube-scheduler orders its own queue",
    ExtensionPoint.POST_FILTER: "kube-scheduler selects victims itself, and lets extenders only review",
    ExtensionPoint.RESERVE: "kube-scheduler does not notify extenders of the chosen node or of its release",
    ExtensionPoint.PERMIT: "kube-scheduler does not let extenders hold a pod back",
    ExtensionPoint.PRE_BIND: "kube-scheduler does not notify extenders before a binding",
    ExtensionPoint.PLACEMENT_GENERATE: "kube-scheduler does not call extenders for groups",
    ExtensionPoint.PLACEMENT_FEASIBLE: "kube-scheduler does not call extenders for groups",
    ExtensionPoint.PLACEMENT_SCORE: "kube-scheduler does not call extenders for groups",
    ExtensionPoint.POD_GROUP_POST_FILTER: "kube-scheduler does not call extenders for groups",
}
"""Extension points without a verb in the extender's protocol, and why."""
ANSWERED: Final = tuple(point for point in ExtensionPoint if point not in REFUSED)


class Verbs(Struct, frozen=True):
    """The verbs that the plugins support and kube-scheduler should call."""

    filters: bool
    scores: bool
    binds: bool


class Served(Struct, frozen=True):
    """The served plugins, as a policy with one profile."""

    policy: Policy
    verbs: Verbs
    names: tuple[str, ...]


def select_served(policy: Policy, names: Sequence[str], profile_name: str = "") -> Served:
    """Reduce a policy to some plugins of a profile; ConfigErrors name everything that an extender cannot do."""
    profile_names = [profile.scheduler_name or "" for profile in policy.config.profiles]
    if profile_name and profile_name not in profile_names:
        hint = did_you_mean(profile_name, profile_names) or f"the profiles are {', '.join(profile_names)}"
        raise ConfigError("--profile", f"the configuration has no profile {profile_name!r}", hint=hint)
    if not profile_name and len(profile_names) > 1:
        problem = f"the configuration has {len(profile_names)} profiles"
        raise ConfigError("--profile", problem, hint=f"select the profile to serve: {', '.join(profile_names)}")
    profile = policy.config.profiles[profile_names.index(profile_name) if profile_name else 0]
    catalogue = build_catalogue(policy.registry)
    enabled = expand_plugins(profile, lambda name: catalogue[name].points)
    _check_served_plugins(enabled.by_point, names)
    points = {point: [name for name in enabled[point] if name in names] for point in ANSWERED}
    filters = bool(points[ExtensionPoint.FILTER] or points[ExtensionPoint.PRE_FILTER])
    binds = bool(points[ExtensionPoint.BIND])
    # The plugins every scheduler must have. The scheduler lists the budgets that preemption reads.
    points[ExtensionPoint.QUEUE_SORT] = [SORT]
    points[ExtensionPoint.BIND].append(BINDER)
    points[ExtensionPoint.POST_FILTER] = [PREEMPTION] if filters else []
    weights = {ExtensionPoint.SCORE: enabled.score_weights}
    entries = {
        point.name.lower(): PluginSet(
            enabled=tuple(PluginEntry(name, weights.get(point, {}).get(name, 0)) for name in plugin_names)
        )
        for point, plugin_names in points.items()
    }
    args = [entry for entry in profile.plugin_config if entry.name in names]
    reduced = ProfileConfig(
        scheduler_name=profile.scheduler_name or DEFAULT_SCHEDULER_NAME,
        plugins=Plugins(**entries),
        plugin_config=(*args, PluginConfig(PREEMPTION, DefaultPreemptionArgs())),
    )
    config = replace(policy.config, profiles=(reduced,), extenders=(), percentage_of_nodes_to_score=None)
    verbs = Verbs(filters, bool(points[ExtensionPoint.SCORE]), binds)
    return Served(Policy(config, policy.registry, policy.features), verbs, tuple(names))


def _check_served_plugins(by_point: Mapping[ExtensionPoint, Iterable[str]], names: Sequence[str]) -> None:
    problems = []
    for name in names:
        points = [point for point, plugin_names in by_point.items() if name in plugin_names]
        if not points:
            problems.append(ConfigError(f"--plugin {name}", "the configuration does not enable it"))
        for point in points:
            if point in REFUSED:
                hint = f"run it with moorage scheduler, or disable {name} at {point} in the --config file"
                problem = f"an extender does not support {point}: {REFUSED[point]}"
                problems.append(ConfigError(f"--plugin {name}", problem, hint=hint))
    bound_by = [name for name in by_point[ExtensionPoint.BIND] if name in names]
    for name in by_point[ExtensionPoint.POST_BIND]:
        if name in names and not bound_by:
            problem = "an extender does not support postBind: kube-scheduler does not notify it of bindings"
            hint = "serve a Bind plugin as well, which binds the pods"
            problems.append(ConfigError(f"--plugin {name}", problem, hint=hint))
    if problems:
        raise ConfigErrors(problems)


def write_stanza(served: Served, url: str, *, wants_certificate: bool = False) -> str:
    """Write the extender's entry for kube-scheduler's configuration, with notes for the operator in comments."""
    verbs = served.verbs
    extender: dict[str, Any] = {"urlPrefix": url}
    if verbs.filters:
        extender |= {"filterVerb": "filter", "preemptVerb": "preempt"}
    if verbs.scores:
        extender |= {"prioritizeVerb": "prioritize", "weight": 1}
    if verbs.binds:
        extender["bindVerb"] = "bind"
    extender |= {"nodeCacheCapable": True, "httpTimeout": "5s"}
    if url.startswith("https:"):
        tls = {"caFile": "/path/to/ca.crt"}
        if wants_certificate:
            tls |= {"certFile": "/path/to/client.crt", "keyFile": "/path/to/client.key"}
        extender |= {"enableHTTPS": True, "tlsConfig": tls}
    lines = [f"# {', '.join(served.names)} as an extender: for the KubeSchedulerConfiguration of kube-scheduler."]
    if verbs.scores:
        lines.append("# Scores of extenders count tenfold: weight 1 corresponds to weight 10 in process.")
    import yaml

    document: str = yaml.safe_dump({"extenders": [extender]}, sort_keys=False)
    return "\n".join([*lines, document])
