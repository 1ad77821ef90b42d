"""Compare the changes of a release with Moorage: what is done, what is open, and the file to look at."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from moorage.kube.features import RELEASES, Stage
from moorage.scheduler.config import args, types
from moorage.scheduler.daemon.feature_gates import LOCKED_OFF, LOCKED_ON, MOOT, PERMANENT, elsewhere
from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.framework.go_names import RENAMED
from release.dist import ROOT
from release.next_minor.modules import Version
from release.next_minor.surface import Change

SOURCE: Final = ROOT / "src" / "moorage"
FIELDS: Final = SOURCE / "kube" / "fields.json"
DONE, OPEN, READ, NONE = "done", "open", "read", "none"
STATES: Final = {
    OPEN: "Moorage lacks it, or has it differently",
    READ: "a person reads the change and decides",
    DONE: "Moorage has it",
    NONE: "Moorage neither serves nor reads it",
}
_VERB: Final = re.compile(r"%[-+# 0]*\d*(?:\.\d+)?[a-zA-Z]|\\[nt\"]")
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: Where the counterpart of a file or type of upstream is, by a part of its path; the first match counts.
_COUNTERPARTS: Final = (
    ("compositepodgroup", "scheduler/state/pod_groups.py"),
    ("apis/config/validation", "scheduler/config/validation.py"),
    ("apis/config", "scheduler/config/types.py"),
    ("backend/api_cache", "scheduler/engine/effects.py"),
    ("backend/api_dispatcher", "scheduler/engine/effects.py"),
    ("backend/cache/podgroup", "scheduler/state/pod_groups.py"),
    ("backend/cache", "scheduler/state/cache.py"),
    ("backend/heap", "scheduler/queue/heap.py"),
    ("backend/queue/workload", "scheduler/queue/groups.py"),
    ("backend/queue/pod_group", "scheduler/queue/groups.py"),
    ("backend/queue/backoff", "scheduler/queue/backoff.py"),
    ("backend/queue", "scheduler/queue/scheduling_queue.py"),
    ("schedule_one_podgroup", "scheduler/engine/groups/group_cycle.py"),
    ("schedule_one", "scheduler/engine/cycle"),
    ("eventhandlers", "scheduler/engine/event_handlers.py"),
    ("extender", "scheduler/engine/extender.py"),
    ("framework/preemption", "scheduler/plugins/default_preemption"),
    ("framework/runtime", "scheduler/engine/extension_points.py"),
    ("framework/plugins/nodevolumelimits", "scheduler/plugins/node_volume_limits"),
    ("framework/plugins/noderesources/balanced", "scheduler/plugins/node_resources_balanced_allocation.py"),
    ("framework/plugins/noderesources", "scheduler/plugins/node_resources_fit"),
    ("framework/plugins/defaultpreemption", "scheduler/plugins/default_preemption"),
    ("framework/plugins/dynamicresources", "scheduler/plugins/dynamic_resources"),
    ("framework/plugins/topologyaware", "scheduler/plugins/topology_placement_generator.py"),
    ("framework/plugins/queuesort", "scheduler/plugins/priority_sort.py"),
    ("framework/plugins/feature", "kube/features.py"),
    ("framework/plugins/names", "scheduler/plugins/included_plugins.py"),
    ("framework/plugins/registry", "scheduler/plugins/included_plugins.py"),
    ("framework/plugins/", "scheduler/plugins"),
    ("framework/events", "scheduler/framework/events.py"),
    ("framework/podgroup", "scheduler/framework/groups.py"),
    ("framework/", "scheduler/framework/plugin.py"),
    ("metrics", "scheduler/daemon/metrics/table.py"),
    ("profile", "scheduler/engine/profile.py"),
    ("structured/", "scheduler/plugins/dynamic_resources/allocation/allocator.py"),
    ("cel/", "scheduler/plugins/dynamic_resources/cel"),
    ("api/", "scheduler/plugins/dynamic_resources/devices"),
    ("resourceslice", "scheduler/plugins/dynamic_resources/devices"),
    ("resourceclaim", "scheduler/plugins/dynamic_resources/claims"),
)


@dataclass(frozen=True)
class Item:
    """A change with its state here, an explanation, and the file of ours."""

    change: Change
    state: str
    file: str
    note: str = ""


def judge(changes: Iterable[Change], version: Version) -> Iterator[Item]:
    """Compare each change with Moorage."""
    for change in changes:
        yield _JUDGES.get(change.topic, _read)(change, version)


def _read(change: Change, _version: Version) -> Item:
    return Item(change, READ, counterpart(change.where or change.subject))


def counterpart(path: str) -> str:
    """Return our file for a path of upstream."""
    match = re.search(r"framework/plugins/(\w+)", path)
    if match is not None:
        for plugin in sorted(SOURCE.glob("scheduler/plugins/*")):
            if plugin.stem.replace("_", "") == match[1].lower():
                return _shown(f"scheduler/plugins/{plugin.name}")
    lowered = path.lower()
    return _shown(next((ours for theirs, ours in _COUNTERPARTS if theirs in lowered), "scheduler"))


def _shown(path: str) -> str:
    return f"src/moorage/{path}"


def _gate(change: Change, version: Version) -> Item:
    name, release = change.subject, version.release
    ours = RELEASES.get(release, {}).get(name)
    foreign = elsewhere(release)
    is_own = ours is not None or any(name in gates for gates in RELEASES.values())
    file = _shown("kube/features.py" if is_own else "scheduler/daemon/feature_gates.py")
    if release not in RELEASES:
        return Item(change, OPEN, _shown("common/version.py"), f"{release} cannot be emulated yet")
    if change.kind == "removed":
        is_known = ours is not None or name in foreign
        return Item(change, OPEN if is_known else DONE, file, "still known here" if is_known else "")
    if change.new is None:
        needs = ", ".join(ours.needs) if ours is not None else ""
        return Item(change, READ if is_own else NONE, file, f"ours needs {needs or 'nothing'}" if is_own else "")
    row = [row for row in change.new if _pair(row["version"]) <= _pair(release) and not row.get("minCompat")][-1]
    theirs = (row["stage"].upper(), row["default"], bool(row.get("locked")))
    if ours is None:
        locked = LOCKED_ON if row["default"] else LOCKED_OFF
        is_right = name in foreign and (not row.get("locked") or name in locked)
        return Item(change, DONE if is_right else OPEN, file, "" if is_right else "not listed, or not as locked")
    mine = (ours.stage.value, ours.default, ours.locked)
    effect = f"no effect here: {MOOT[name]}" if name in MOOT else "permanent here" if name in PERMANENT else ""
    if mine == theirs:
        return Item(change, DONE, file, effect)
    return Item(change, OPEN, file, f"ours: {_gate_text(ours.stage, ours.default, ours.locked)}")


def _gate_text(stage: Stage, default: bool, locked: bool) -> str:
    return f"{stage.value} {'on' if default else 'off'}{' locked' if locked else ''}"


def _pair(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _text(change: Change, _version: Version) -> Item:
    file = counterpart(change.where)
    has = _has_text(change.subject)
    if change.kind == "removed":
        return Item(change, READ if has else DONE, file, "still written here" if has else "")
    is_decision = any(part in change.where for part in ("plugins/", "schedule_one", "validation", "structured", "cel/"))
    return Item(change, DONE if has else OPEN if is_decision else READ, file, "" if has else "not found in our sources")


def _has_text(text: str) -> bool:
    pieces = [piece.strip() for piece in _VERB.split(text)]
    longest = max(pieces, key=len, default="")
    if len(longest) < 4 or _squeezed(longest) in _sources():
        return len(longest) >= 4
    # A constant may contain the first or the last part of several texts.
    words = longest.split()
    parts = ((" ".join(words[:number]), " ".join(words[number:])) for number in range(1, len(words)))
    return any(min(map(len, pair)) >= 12 and all(_squeezed(part) in _sources() for part in pair) for pair in parts)


@cache
def _sources() -> str:
    return _squeezed("\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))))


def _squeezed(text: str) -> str:
    """Drop quotes, spaces and line breaks: texts may be split over several lines."""
    return re.sub(r"[\s\"'\\]+|\bf(?=\")", "", text)


def _metric(change: Change, _version: Version) -> Item:
    file, ours = _shown("scheduler/daemon/metrics/table.py"), METRICS.get(change.subject)
    if change.kind == "removed":
        return Item(change, OPEN if ours is not None else DONE, file)
    if ours is None:
        return Item(change, OPEN, file, "missing")
    theirs = change.new or {}
    problems = []
    if sorted(ours.labels) != sorted(theirs.get("labels") or ()):
        problems.append(f"our labels: {', '.join(ours.labels) or 'none'}")
    if ours.stability != theirs.get("stability"):
        problems.append(f"our stability: {ours.stability}")
    return Item(change, OPEN if problems else DONE, file, "; ".join(problems))


@cache
def _config_names() -> frozenset[str]:
    structs = (
        item
        for module in (types, args)
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, msgspec.Struct)
    )
    return frozenset(name for struct in structs for name in struct.__struct_encode_fields__)


def _config(change: Change, _version: Version) -> Item:
    file = _shown("scheduler/config/types.py")
    name = ((change.new or {}).get("json") or "").partition(",")[0]
    if not name:
        return Item(change, READ, file, "an internal type, or a type without JSON name")
    has = name in _config_names()
    wanted = change.kind != "removed"
    return Item(change, DONE if has == wanted else OPEN, file, "" if has == wanted else f"our types: {name} is {has}")


@cache
def _methods() -> frozenset[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCE / "scheduler" / "framework").glob("*.py"))
    names = {*re.findall(r"def (\w+)\(", text), *re.findall(r"class (\w+)", text)}
    return frozenset(name.replace("_", "").lower() for name in names) | frozenset(RENAMED)


def _interface(change: Change, _version: Version) -> Item:
    name = change.subject.rpartition(".")[2]
    has = change.kind == "added" and name.replace("_", "").lower() in _methods()
    return Item(change, DONE if has else READ, _shown("scheduler/framework/plugin.py"))


@cache
def _fields() -> dict[str, dict[str, Any]]:
    listed = json.loads(FIELDS.read_text(encoding="utf-8"))["types"]
    return {name: {field.get("name", ""): field for field in fields} for name, fields in listed.items()}


def _api_type(change: Change, _version: Version) -> Item:
    file = "src/moorage/kube/fields.json"
    package, name, member = [*change.subject.split("."), ""][:3]
    prefix = (
        "io.k8s.apimachinery.pkg.apis.meta.v1" if package in ("", ".") else f"io.k8s.api.{package.replace('/', '.')}"
    )
    fields = _fields().get(f"{prefix}.{name}")
    if fields is None:
        is_served = any(known.startswith(f"{prefix}.") for known in _fields())
        is_news = change.kind == "added" and not member and is_served
        return Item(change, READ if is_news else NONE, file, "not in fields.json" if is_news else "")
    if not member:
        return Item(change, {"removed": OPEN, "added": DONE, "changed": READ}[change.kind], file)
    json_name = ((change.new or {}).get("json") or "").partition(",")[0]
    if change.kind == "added" and json_name:
        return Item(change, DONE if json_name in fields else OPEN, file)
    if change.kind == "removed":
        theirs = re.search(r" (\w+)(?:,\w+)* ", change.detail + " ")
        has = theirs is not None and theirs[1] in fields
        return Item(change, OPEN if has else DONE, file, "still served here" if has else "")
    return Item(change, READ, file)


def _workload(change: Change, _version: Version) -> Item:
    return Item(change, READ, "benchmarks/workloads")


_JUDGES: Final = {
    "feature gates": _gate,
    "texts": _text,
    "metrics": _metric,
    "configuration API": _config,
    "framework interfaces": _interface,
    "API types": _api_type,
    "scheduler_perf": _workload,
}


def combine(items: Iterable[Item]) -> list[Item]:
    """Merge items that are read together: changed markers by type, and workloads by case."""
    combined: list[Item] = []
    groups: defaultdict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for item in items:
        topic = item.change.topic
        if item.state == READ and topic == "API types" and item.change.kind == "changed":
            groups[topic, ".".join(item.change.subject.split(".")[:2]), "markers"].append(item)
        elif topic == "scheduler_perf":
            groups[topic, item.change.subject.partition("/")[0], item.change.kind].append(item)
        else:
            combined.append(item)
    for (topic, subject, what), members in groups.items():
        first = members[0]
        if len(members) == 1:
            combined.append(first)
            continue
        names = ", ".join(sorted({item.change.subject.removeprefix(subject).lstrip("./") for item in members} - {""}))
        detail = f"{len(members)} changes: {names[:160]}{'…' if len(names) > 160 else ''}"
        kind = "changed" if what == "markers" else what
        combined.append(Item(Change(topic, kind, subject, detail), first.state, first.file, first.note))
    return combined


def write_list(items: Collection[Item], certainty: str) -> Iterator[str]:
    """Yield the lines of the to-do list: a table of numbers, then the items of each topic."""
    by_topic: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_topic[item.change.topic].append(item)
    yield f"| topic | {' | '.join(STATES)} |"
    yield f"|---|{'---|' * len(STATES)}"
    for topic, members in by_topic.items():
        counts = [sum(item.state == state for item in members) for state in STATES]
        yield f"| {topic} | {' | '.join(map(str, counts))} |"
    yield ""
    yield from (f"- *{state}*: {meaning}" for state, meaning in STATES.items())
    for topic, members in by_topic.items():
        listed = [item for item in members if item.state in (OPEN, READ)]
        if listed:
            yield from ("", f"### {topic[0].upper()}{topic[1:]}", "")
        for item in sorted(listed, key=lambda item: (item.state != OPEN, item.file)):
            parts = [item.change.detail, item.note and f"**{item.note}**", f"certainty: {certainty}"]
            text = _one_line("; ".join(part for part in parts if part))
            subject = _one_line(item.change.subject)
            yield f"- [ ] {item.state}: {item.change.kind} `{subject}` ({text}) → `{item.file}`"


def _one_line(text: str) -> str:
    text = " ".join(text.replace("`", "'").split()).removeprefix("..")
    return text if len(text) < 300 else f"{text[:299]}…"
