"""Read the surface of a release with `conformance/surface`, and compare two releases."""

import difflib
import json
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from release.dist import ROOT
from release.next_minor.modules import DownloadError, Release, cache_directory

Json = dict[str, Any]
#: The directories of each area. The scheduler and its gates may move to the library, so both places are read.
AREAS: Final = {
    "gates": (
        "kubernetes/pkg/features",
        "kube-scheduler/pkg/features",
        "apiserver/pkg/features",
        "client-go/features",
        "component-base/metrics/features",
        "component-base/logs/api/v1",
    ),
    "config": (
        "kube-scheduler/config",
        "kubernetes/pkg/scheduler/apis/config",
        "kube-scheduler/pkg/scheduler/apis/config",
    ),
    "framework": ("kube-scheduler/framework", "kube-scheduler/extender"),
    "scheduler": ("kubernetes/pkg/scheduler", "kube-scheduler/pkg/scheduler"),
    "devices": ("dynamic-resource-allocation",),
    "api": ("api",),
    "meta": ("apimachinery/pkg/apis/meta/v1",),
}


@dataclass(frozen=True)
class Change:
    """One difference between two releases. ``kind`` is added, removed or changed."""

    topic: str
    kind: str
    subject: str
    detail: str = ""
    where: str = ""
    new: Any = field(default=None, compare=False)


def read_surface(release: Release, modules: Collection[str]) -> dict[str, Json]:
    """Read all areas that a release has in some modules: the modules that can be downloaded for both releases."""
    program = _build()
    surfaces = {}
    for area, places in AREAS.items():
        if directories := release.find(*(place for place in places if place.partition("/")[0] in modules)):
            ran = subprocess.run([program, *directories], capture_output=True, text=True, check=True)
            surfaces[area] = json.loads(ran.stdout)
    return surfaces


def _build() -> Path:
    program = cache_directory() / "surface"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "-C", str(ROOT / "conformance"), "build", "-o", str(program), "./surface"]
    built = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        raise DownloadError(f"conformance/surface does not build: {built.stderr.strip()[-500:]}")
    return program


def compare_surfaces(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[Change]:
    """Return all changes in the areas that both releases have."""
    changes: list[Change] = []
    for area in AREAS:
        if area in old and area in new:
            changes += [change for compare in _COMPARISONS[area] for change in compare(old[area], new[area])]
    return changes


def _gates(old: Json, new: Json) -> Iterator[Change]:
    for name in sorted({*old["gates"], *new["gates"]}):
        # Gates of libraries are also listed in Kubernetes.
        before, after = (_distinct(side["gates"].get(name)) for side in (old, new))
        if before is None:
            yield Change("feature gates", "added", name, _rows(after or []), new=after)
        elif after is None:
            yield Change("feature gates", "removed", name, _rows(before))
        elif before != after:
            added = [row for row in after if row not in before]
            removed = [row for row in before if row not in after]
            detail = "; ".join(part for part in (_rows(added), removed and f"without {_rows(removed)}") if part)
            yield Change("feature gates", "changed", name, detail, new=after)
    for name in sorted({*old["needs"], *new["needs"]}):
        before, after = old["needs"].get(name, []), new["needs"].get(name, [])
        if sorted(before) != sorted(after) and name in old["gates"] and name in new["gates"]:
            yield Change("feature gates", "changed", name, f"needs {after or 'nothing'}; before {before or 'nothing'}")


def _distinct(rows: list[Json] | None) -> list[Json] | None:
    return rows if rows is None else [row for number, row in enumerate(rows) if row not in rows[:number]]


def _rows(rows: list[Json]) -> str:
    parts = []
    for row in rows:
        text = f"{row['version']} {row['stage']} {'on' if row['default'] else 'off'}"
        text += " locked" if row.get("locked") else ""
        parts.append(text + (f" from min-compatibility {row['minCompat']}" if row.get("minCompat") else ""))
    return ", ".join(parts)


def _types(
    topic: str, kinds: tuple[str, ...] = ("struct", "interface", "other")
) -> Callable[[Json, Json], Iterator[Change]]:
    def compare(old: Json, new: Json) -> Iterator[Change]:
        before, after = (
            {name: item for name, item in side["types"].items() if item["kind"] in kinds} for side in (old, new)
        )
        for name in sorted({*before, *after}):
            if name not in before:
                yield Change(topic, "added", name, ", ".join(sorted(after[name].get("members", {}))), new=after[name])
            elif name not in after:
                yield Change(topic, "removed", name)
            else:
                yield from _members(topic, name, before[name], after[name])

    return compare


def _members(topic: str, name: str, before: Json, after: Json) -> Iterator[Change]:
    if before.get("markers") != after.get("markers"):
        yield Change(topic, "changed", name, _set_difference(before.get("markers"), after.get("markers")))
    # An embedded field is inlined with and without the tag.
    old, new = (
        {
            key: item | {"json": ""} if item.get("json") == ",inline" else item
            for key, item in side.get("members", {}).items()
        }
        for side in (before, after)
    )
    for member in sorted({*old, *new}):
        subject = f"{name}.{member}"
        if member not in old:
            yield Change(topic, "added", subject, _member(new[member]), new=new[member])
        elif member not in new:
            yield Change(topic, "removed", subject, _member(old[member]))
        elif _plain(old[member]) != _plain(new[member]):
            parts = [
                f"{key} {old[member].get(key, '-')} → {new[member].get(key, '-')}"
                for key in ("type", "json", "protobuf")
                if old[member].get(key) != new[member].get(key)
            ]
            if old[member].get("markers") != new[member].get("markers"):
                parts.append(_set_difference(old[member].get("markers"), new[member].get("markers")))
            yield Change(topic, "changed", subject, "; ".join(parts), new=new[member])


def _plain(member: Json) -> Json:
    return {key: value for key, value in member.items() if value}


def _member(member: Json) -> str:
    return " ".join(str(member[key]) for key in ("type", "json", "protobuf") if member.get(key))


def _set_difference(before: list[str] | None, after: list[str] | None) -> str:
    gone = [f"without {item}" for item in before or () if item not in (after or ())]
    come = [f"with {item}" for item in after or () if item not in (before or ())]
    return ", ".join([*come, *gone]) or "order of markers"


def _constants(old: Json, new: Json) -> Iterator[Change]:
    for name in sorted({*old["constants"], *new["constants"]}):
        before, after = old["constants"].get(name), new["constants"].get(name)
        if before != after and not name.rpartition(".")[2].startswith("_"):
            kind = "added" if before is None else "removed" if after is None else "changed"
            yield Change(
                "constants",
                kind,
                name,
                str(after if before is None else before if after is None else f"{before} → {after}"),
            )


def _texts(old: Json, new: Json) -> Iterator[Change]:
    """Compare texts of the complete area: a text that moves to another file has not changed."""
    before, after = (
        {text: file for file, texts in sorted(side["texts"].items()) for text in texts} for side in (old, new)
    )
    removed = [text for text in before if text not in after]
    for text in (text for text in after if text not in before):
        similar = difflib.get_close_matches(text, [item for item in removed if before[item] == after[text]], 1, 0.7)
        if similar:
            removed.remove(similar[0])
            yield Change("texts", "changed", text, f"before: {similar[0]}", after[text], new=text)
        else:
            yield Change("texts", "added", text, "", after[text], new=text)
    for text in removed:
        yield Change("texts", "removed", text, "", before[text])


def _metrics(old: Json, new: Json) -> Iterator[Change]:
    for name in sorted({*old["metrics"], *new["metrics"]}):
        before, after = old["metrics"].get(name), new["metrics"].get(name)
        if before is None:
            yield Change("metrics", "added", name, _metric(after), new=after)
        elif after is None:
            yield Change("metrics", "removed", name)
        elif parts := [
            f"{key} {before.get(key, '-')} → {after.get(key, '-')}"
            for key in ("kind", "labels", "buckets", "stability")
            if before.get(key) != after.get(key)
        ]:
            yield Change("metrics", "changed", name, "; ".join(parts), new=after)


def _metric(metric: Json) -> str:
    return f"{metric['kind']}, labels {metric.get('labels', [])}, {metric.get('stability', 'ALPHA')}"


def _events(old: Json, new: Json) -> Iterator[Change]:
    for plugin in sorted({*old["events"], *new["events"]}):
        before, after = old["events"].get(plugin), new["events"].get(plugin)
        if before is None or after is None:
            kind, events = ("added", after) if before is None else ("removed", before)
            yield Change("event registrations", kind, plugin, ", ".join(events or ()))
        elif before != after:
            yield Change("event registrations", "changed", plugin, _set_difference(before, after))


_COMPARISONS: Final[Mapping[str, tuple[Callable[[Json, Json], Iterator[Change]], ...]]] = {
    "gates": (_gates,),
    "config": (_types("configuration API"), _texts),
    "framework": (_types("framework interfaces"), _constants),
    "scheduler": (_texts, _metrics, _events, _types("internal interfaces", ("interface",))),
    "devices": (_texts, _metrics),
    "api": (_types("API types"), _constants),
    "meta": (_types("API types"), _constants),
}


def compare_files(old: Release, new: Release) -> Iterator[Change]:
    """Yield the changed files of the scheduler, with the number of changed lines without comments and tests."""
    sides = [_files(release) for release in (old, new)]
    for name in sorted({*sides[0], *sides[1]}):
        before, after = (_code(side[name]) if name in side else [] for side in sides)
        if before != after:
            matched = sum(
                block.size for block in difflib.SequenceMatcher(None, before, after, False).get_matching_blocks()
            )
            kind = "added" if name not in sides[0] else "removed" if name not in sides[1] else "changed"
            yield Change("files", kind, name, f"{len(before) + len(after) - 2 * matched} changed lines")


def _files(release: Release) -> dict[str, Path]:
    files = {}
    for root in release.find(
        *AREAS["scheduler"], "dynamic-resource-allocation/structured", "dynamic-resource-allocation/cel"
    ):
        for path in root.rglob("*.go"):
            generated = path.name.startswith("zz_generated") or path.name.endswith("_test.go")
            if not generated and not {"testing", "testdata"} & {*path.parts}:
                files[f"{root.name}/{path.relative_to(root).as_posix()}"] = path
    return files


def _code(path: Path) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]


def compare_workloads(old: Release, new: Release) -> Iterator[Change]:
    """Yield the changed workloads of scheduler_perf: cases, sizes and thresholds."""
    before, after = _workloads(old), _workloads(new)
    if not before or not after:
        return
    for name in sorted({*before, *after}):
        if name not in before:
            yield Change("scheduler_perf", "added", name, after[name], new=after[name])
        elif name not in after:
            yield Change("scheduler_perf", "removed", name)
        elif before[name] != after[name]:
            yield Change("scheduler_perf", "changed", name, f"{before[name]} → {after[name]}")


def _workloads(release: Release) -> dict[str, str]:
    workloads = {}
    for root in release.find("kubernetes/test/integration/scheduler_perf"):
        for path in sorted(root.rglob("performance-config.yaml")):
            for case in yaml.safe_load(path.read_text(encoding="utf-8")) or ():
                for workload in case.get("workloads", ()):
                    sizes = ", ".join(f"{key} {value}" for key, value in (workload.get("params") or {}).items())
                    threshold = workload.get("threshold")
                    limit = f"threshold {threshold}" if threshold else "no threshold"
                    workloads[f"{case['name']}/{workload['name']}"] = f"{sizes}; {limit}"
    return workloads
