"""Policy files: predicates, priorities and extenders, which profiles replaced."""

from collections.abc import Mapping
from typing import Any, Final

from moorage.scheduler.config.conversion.drafts import Effect, Notes, ProfileDraft, as_list, as_mapping, as_number
from moorage.scheduler.config.conversion.tables import (
    DEFAULT_PRIORITIES,
    FILTERS,
    FIT,
    HARMLESS,
    MANDATORY,
    PREDICATES,
    PRIORITIES,
    RATIO,
    SCORERS,
    SPREAD,
    STRATEGIES,
)
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.types import DEFAULT_SCHEDULER_NAME, ExtenderConfig

_EXTENDER_FIELDS: Final = {name.lower(): name for name in ExtenderConfig.__struct_encode_fields__}
_RATIO_ARGUMENTS: Final = "requestedToCapacityRatioArguments"
HARD_WEIGHT_NOW: Final = "is now hardPodAffinityWeight in the args of InterPodAffinity"
_FIELDS: Final = (
    *("apiVersion", "kind", "metadata", "predicates", "priorities", "extenders", "extenderConfigs"),
    *("hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates"),
)


def convert_policy(policy: Mapping[str, Any], location: str, notes: Notes) -> dict[str, Any]:
    """Return the v1 configuration of a Policy: one profile and the extenders."""
    draft = ProfileDraft(DEFAULT_SCHEDULER_NAME, location, notes)
    filters = _filters(policy.get("predicates"), draft, f"{location}predicates", notes)
    scores = _scores(policy.get("priorities"), draft, f"{location}priorities", notes)
    _choose(draft, filters, scores)
    weight = policy.get("hardPodAffinitySymmetricWeight")
    if weight is not None:
        draft.args("InterPodAffinity")["hardPodAffinityWeight"] = weight
        notes.add(Effect.MOVED, f"{location}hardPodAffinitySymmetricWeight", HARD_WEIGHT_NOW)
    if policy.get("alwaysCheckAllPredicates"):
        notes.add(
            Effect.DROPPED, f"{location}alwaysCheckAllPredicates", "filtering of a node ends at the first rejection"
        )
    for field in policy:
        if field not in _FIELDS:
            notes.report_loss(f"{location}{field}", "a Policy has no such field")
    converted: dict[str, Any] = {"profiles": [draft.finished()]}
    policy_extenders = policy.get("extenders") or policy.get("extenderConfigs")
    if extenders := convert_extenders(policy_extenders, f"{location}extenders", notes):
        converted["extenders"] = extenders
    return converted


def convert_extenders(extenders: Any, location: str, notes: Notes) -> list[dict[str, Any]]:
    """Return extenders as v1 writes them."""
    rows = enumerate(as_list(extenders, location, notes))
    return [_extender(as_mapping(row, f"{location}[{at}]", notes), f"{location}[{at}]", notes) for at, row in rows]


def _extender(extender: Mapping[str, Any], location: str, notes: Notes) -> dict[str, Any]:
    """Return one extender: case did not matter, as in enableHttps, and the timeout was nanoseconds."""
    converted: dict[str, Any] = {}
    for field, value in extender.items():
        now = _EXTENDER_FIELDS.get(field.lower())
        if now is not None:
            converted[now] = value
        elif field == "apiVersion":
            notes.add(Effect.DROPPED, f"{location}.{field}", "extenders have one protocol version")
        else:
            notes.report_loss(f"{location}.{field}", "an extender has no such field")
    timeout = converted.get("httpTimeout")
    if isinstance(timeout, int) and not isinstance(timeout, bool):
        converted["httpTimeout"] = str(Duration(timeout))
    return converted


def _filters(predicates: Any, draft: ProfileDraft, location: str, notes: Notes) -> frozenset[str]:
    """Return the filters that replace a Policy's predicates; all of them if it has no list."""
    if predicates is None:
        return FILTERS
    filters = set(MANDATORY)
    for number, predicate in enumerate(as_list(predicates, location, notes)):
        field_path = f"{location}[{number}]"
        entry = as_mapping(predicate, field_path, notes)
        name, argument = entry.get("name", ""), as_mapping(entry.get("argument"), f"{field_path}.argument", notes)
        if presence := argument.get("labelsPresence"):
            labels = as_mapping(presence, f"{field_path}.argument.labelsPresence", notes)
            draft.require_labels(list(labels.get("labels") or ()), presence=bool(labels.get("presence")))
            filters.add("NodeAffinity")
            notes.add(Effect.RENAMED, f"{field_path} {name}", "is now addedAffinity in the args of NodeAffinity")
        elif argument.get("serviceAffinity"):
            notes.report_loss(f"{field_path} {name}", "serviceAffinity was removed; add a podAffinity to the pods")
        elif plugins := PREDICATES.get(name):
            filters.update(plugins)
            notes.add(Effect.RENAMED, f"{field_path} {name}", f"is now {' and '.join(plugins)}")
        else:
            notes.report_loss(f"{field_path} {name}", "unknown predicate")
    return frozenset(filters)


def _scores(priorities: Any, draft: ProfileDraft, location: str, notes: Notes) -> dict[str, int]:
    """Return the weights of the scorers that replace a Policy's priorities."""
    if priorities is None:
        entries: list[Any] = [{"name": name, "weight": 1} for name in DEFAULT_PRIORITIES]
        notes.add(Effect.CHANGED, location, "missing: the default weights of that version are written")
    else:
        entries = as_list(priorities, location, notes)
    weights: dict[str, int] = {}
    # The first priority with the largest weight selects the strategy of NodeResourcesFit.
    candidates = [
        (as_number(entry.get("weight"), "", Notes(), 1), -index)
        for index, entry in enumerate(entries)
        if _selects_strategy(entry)
    ]
    selected = -max(candidates)[1] if candidates else None
    for number, priority in enumerate(entries):
        field_path = f"{location}[{number}]"
        entry = as_mapping(priority, field_path, notes)
        name, weight = entry.get("name", ""), as_number(entry.get("weight"), f"{field_path}.weight", notes, 1)
        argument = as_mapping(entry.get("argument"), f"{field_path}.argument", notes)
        if number != selected and _selects_strategy(entry):
            notes.report_loss(
                f"{field_path} {name}", f"{FIT} has only one strategy, and {location}[{selected}] has more weight"
            )
            continue
        if argument:
            plugin = _custom(name, weight, argument, draft, field_path)
        else:
            plugin = _resolve_name(name, draft, field_path, is_written=priorities is not None)
        if plugin in weights and plugin != SPREAD:
            notes.report_loss(f"{field_path} {name}", f"{plugin} is already enabled")
        elif plugin:
            weights[plugin] = weights.get(plugin, 0) + weight
    return weights


def _selects_strategy(entry: Any) -> bool:
    if not isinstance(entry, Mapping):
        return False
    priority = PRIORITIES.get(str(entry.get("name", "")))
    argument = entry.get("argument")
    if argument:
        return isinstance(argument, Mapping) and _RATIO_ARGUMENTS in argument
    return priority is not None and priority.plugin == FIT


def _resolve_name(name: str, draft: ProfileDraft, field_path: str, *, is_written: bool) -> str:
    notes, priority = draft.notes, PRIORITIES.get(name)
    if priority is None:
        notes.report_loss(f"{field_path} {name}", "unknown priority")
        return ""
    if not priority.plugin:
        notes.add(Effect.DROPPED if name in HARMLESS else Effect.LOST, f"{field_path} {name}", priority.why)
        return ""
    if priority.strategy and priority.strategy != STRATEGIES[RATIO] and "scoringStrategy" not in draft.args(FIT):
        draft.use_strategy(priority.strategy)
    if is_written:
        by = f" with the strategy {priority.strategy}" if priority.strategy else ""
        notes.add(Effect.RENAMED, f"{field_path} {name}", f"is now {priority.plugin}{by}")
    return priority.plugin


def _custom(name: str, weight: int, argument: Mapping[str, Any], draft: ProfileDraft, field_path: str) -> str:
    notes, location = draft.notes, f"{field_path} {name}"
    if _RATIO_ARGUMENTS in argument:
        params = as_mapping(argument[_RATIO_ARGUMENTS], field_path, notes)
        use_ratio(draft, params)
        notes.add(Effect.RENAMED, location, f"is now {FIT} with the strategy {STRATEGIES[RATIO]}")
        return FIT
    if "labelPreference" in argument:
        preference = as_mapping(argument["labelPreference"], field_path, notes)
        draft.prefer_label(str(preference.get("label", "")), presence=bool(preference.get("presence")), weight=weight)
        notes.report_loss(
            location, "is now a preference in addedAffinity of NodeAffinity, scored with the weight of that plugin"
        )
        return ""
    if "serviceAntiAffinity" in argument:
        notes.report_loss(location, f"serviceAntiAffinity was removed; {SPREAD} spreads over a topologyKey")
        return ""
    notes.report_loss(location, f"its argument {', '.join(argument)} is unknown")
    return ""


def use_ratio(draft: ProfileDraft, params: Mapping[str, Any]) -> None:
    """Score NodeResourcesFit by a piecewise linear function. Resources without a weight have weight 1."""
    resources = [{"weight": 1} | dict(resource) for resource in params.get("resources") or ()]
    draft.use_strategy(
        STRATEGIES[RATIO], resources=resources, requestedToCapacityRatio={"shape": list(params.get("shape") or ())}
    )


def _choose(draft: ProfileDraft, filters: frozenset[str], scores: Mapping[str, int]) -> None:
    """Disable default plugins that the Policy does not select. Newer plugins remain enabled."""
    for plugin in sorted(FILTERS | SCORERS):
        is_filter, is_scorer = plugin in filters, plugin in scores
        if not is_filter and not is_scorer:
            draft.disable("multiPoint", plugin)
        elif is_scorer and not is_filter and plugin in FILTERS:
            draft.disable("preFilter", plugin)
            draft.disable("filter", plugin)
        elif is_filter and not is_scorer and plugin in SCORERS:
            draft.disable("preScore", plugin)
            draft.disable("score", plugin)
    for plugin, weight in scores.items():
        if weight:
            draft.enable("score", plugin, weight)
        else:
            draft.disable("score", plugin)
