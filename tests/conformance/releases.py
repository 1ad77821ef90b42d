"""Compare the oracles of two releases with each other and with Moorage: every difference has a cause.

python -m tests.conformance.releases --old ORACLE --old-release 1.36 --new ORACLE --new-release 1.37 --n 200

For each cluster, up to five results are compared:

- the old and the new kube-scheduler; a difference is a change of upstream
- the new kube-scheduler that emulates the old release; if it decides as the old one does, a feature gate explains it
- Moorage at both emulated versions; a difference from the new kube-scheduler at the same version is our defect
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from rich.console import Console

from moorage.common.version import RELEASES
from tests.conformance.compare import Difference, differences
from tests.conformance.fuzz import find_features, silence_logs
from tests.conformance.fuzzer import guarded
from tests.conformance.generator import Case, generate
from tests.conformance.oracle import KubeSchedulerCrash, Oracle, OracleError
from tests.conformance.ours import decide
from tests.conformance.shrink import shrink

Decisions = list[dict[str, Any]]
#: Features of the generated clusters, with their share. Groups are compared from 1.37: those of 1.36 are another API.
BUDGET: Final = (("", 0.35), ("volumes", 0.2), ("devices", 0.25), ("all", 0.2))
BUDGET_WITH_GROUPS: Final = (("", 0.3), ("volumes", 0.15), ("devices", 0.2), ("all", 0.15), ("groups", 0.2))
GATED, UNGATED = "explained by a feature gate", "without a feature gate"
UPSTREAM, OURS = "upstream", "ours"
EXAMPLES: Final = 6
"""Classes of differences for which a cluster is shrunk and kept."""
_NAMES: Final = re.compile(r"\[[^\]]*\]|\b[npr]?\d+\b|\b\d+\b|'[^']*'|\"[^\"]*\"")


class Finding(NamedTuple):
    """A difference in a cluster: whose it is, its cause or release, and its class."""

    side: str
    cause: str
    kind: str
    difference: Difference


@dataclass
class Comparison:
    """The number of clusters with each class of differences, and a shrunk example of the most frequent ones."""

    clusters: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "clusters": self.clusters,
            "refused": dict(self.refused),
            "differences": [[*key, count] for key, count in self.counts.most_common()],
            "examples": self.examples,
        }

    def as_markdown(self) -> Iterator[str]:
        """Yield the lines of a report."""
        yield f"{self.clusters} clusters; the number counts clusters with the difference."
        yield from ("", "| whose | cause or emulated release | difference | clusters |", "|---|---|---|---|")
        for (side, cause, kind), count in self.counts.most_common():
            yield f"| {side} | {cause} | {kind.replace('|', '/')} | {count} |"
        if self.refused:
            yield from ("", "| clusters that one oracle rejects | number |", "|---|---|")
            yield from (f"| {reason.replace('|', '/')} | {count} |" for reason, count in self.refused.most_common())
        for name, example in self.examples.items():
            if example:
                yield from ("", f"Example of {name}:", "", "```json", json.dumps(example), "```")


class Releases:
    """The oracles of two releases, the new one also at the emulated old version, and Moorage."""

    def __init__(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Start the oracles; each side is a binary and its release, such as 1.36."""
        (old_binary, self.old_release), (new_binary, self.new_release) = old, new
        self._oracles = {"old": Oracle(old_binary), "new": Oracle(new_binary)}
        if self.old_release != self.new_release:
            self._oracles["emulated"] = Oracle(new_binary, self.old_release)
        self._is_before_37 = int(self.old_release.partition(".")[2]) < 37

    @property
    def budget(self) -> tuple[tuple[str, float], ...]:
        """The features of clusters that both releases can decide."""
        return BUDGET if self._is_before_37 else BUDGET_WITH_GROUPS

    def compare(self, case: Case, refused: Counter[str] | None = None) -> Iterator[Finding]:
        """Yield the differences of one cluster. Of two oracles, the first pod with a difference counts."""
        for oracle in self._oracles.values():
            oracle.ask(case)
        results, rejected = dict[str, Decisions](), set[str]()
        for name, oracle in self._oracles.items():
            try:
                results[name] = oracle.answer()
            except KubeSchedulerCrash:
                continue
            except OracleError as error:
                rejected.add(name)
                if refused is not None:
                    refused[f"{name}: {_NAMES.sub('…', str(error))[:70]}"] += 1
        if "old" in results and "new" in results:
            yield from self._upstream(results["old"], results["new"], results.get("emulated"))
        for release, name in ((self.new_release, "new"), (self.old_release, "emulated")):
            if release in RELEASES and (name in results or name in rejected):
                own, crash = guarded(partial(decide, release=release), case)
                if name in rejected and crash is None:
                    yield Finding(OURS, release, "accepted", Difference("*", "accepted", "accepted", own, "rejected"))
                elif name in results:
                    for item in [crash] if crash is not None else differences(own, results[name]):
                        yield Finding(OURS, release, item.kind, item)

    def _upstream(self, old: Decisions, new: Decisions, emulated: Decisions | None) -> Iterator[Finding]:
        if self._is_before_37:
            # 1.36 does not report scores before their normalization.
            old, new = _without_raw_scores(old), _without_raw_scores(new)
            emulated = _without_raw_scores(emulated) if emulated is not None else None
        gated = _first(differences(new, old))
        ungated = _first(differences(emulated, old)) if emulated is not None else gated
        remaining = {classify(item) for item in ungated}
        for item in gated:
            kind = classify(item)
            yield Finding(UPSTREAM, UNGATED if kind in remaining else GATED, kind, item)

    def close(self) -> None:
        """Stop the oracles."""
        for oracle in self._oracles.values():
            oracle.__exit__(None, None, None)


def _first(items: list[Difference]) -> list[Difference]:
    """Return the differences of the first pod: those of later pods may be consequences."""
    return [item for item in items if item.pod == items[0].pod]


def classify(item: Difference) -> str:
    """Return the class of a difference: the field, and the changed words of a text."""
    ours, theirs = (text if isinstance(text, str) else "" for text in (item.ours, item.theirs))
    if not ours or not theirs or item.kind not in ("message", "nodes.reasons"):
        return item.kind
    old, new = ({*re.split(r"[,.:] ", _NAMES.sub("…", text))} for text in (theirs, ours))
    parts = [*(f"+ {part.strip()}" for part in sorted(new - old)), *(f"- {part.strip()}" for part in sorted(old - new))]
    return f"{item.kind} ({'; '.join(parts[:2])})" if parts else item.kind


def _without_raw_scores(decisions: Decisions) -> Decisions:
    plain: Decisions = json.loads(json.dumps(decisions))
    for decision in plain:
        for node in decision.get("nodes", {}).values():
            for score in node.get("scores", {}).values():
                score.pop("raw", None)
    return plain


def compare_releases(
    old: tuple[str, str], new: tuple[str, str], *, count: int, seed: str, console: Console
) -> Comparison:
    """Run the same clusters through both oracles and through Moorage."""
    silence_logs()
    comparison, first = Comparison(), dict[tuple[str, str, str], Case]()
    releases = Releases(old, new)
    try:
        for features, share in releases.budget:
            for number in range(max(1, round(count * share))):
                case = generate(f"{seed}/{number}", features=find_features(features))
                comparison.clusters += 1
                classes = {(item.side, item.cause, item.kind) for item in releases.compare(case, comparison.refused)}
                comparison.counts.update(classes)
                for key in classes:
                    first.setdefault(key, case)
            console.print(f"  {comparison.clusters} clusters compared ({features or 'basic'})", highlight=False)
        # Our defects first, then changes that no gate explains.
        counts = comparison.counts
        ranked = sorted(counts, key=lambda key: (key[0] == UPSTREAM, key[1] == GATED, -counts[key]))
        for key in ranked[:EXAMPLES]:
            example = _example(releases, first[key], key)
            comparison.examples[" / ".join(key)] = example
            result = "shrunk an example of" if example else "not repeatable, so left to chance in one release:"
            console.print(f"  {result} {' / '.join(key)}", highlight=False)
    finally:
        releases.close()
    return comparison


def _example(releases: Releases, case: Case, key: tuple[str, str, str]) -> dict[str, Any]:
    """Shrink a cluster to the objects that a difference needs; empty if the difference does not repeat."""

    def find(smaller: Case) -> Difference | None:
        matching = (item.difference for item in releases.compare(smaller) if (item.side, item.cause, item.kind) == key)
        return next(matching, None)

    if find(case) is not None:
        case = shrink(case, lambda smaller: find(smaller) is not None)
    difference = find(case)
    if difference is None:
        return {}
    names = ("old", "new") if key[0] == UPSTREAM else ("kube-scheduler", "Moorage")
    return {
        "seed": case.seed,
        "objects": case.objects,
        **({"config": case.config} if case.config else {}),
        **({"featureGates": case.feature_gates} if case.feature_gates else {}),
        "pod": difference.pod,
        "field": difference.path,
        names[0]: difference.theirs,
        names[1]: difference.ours,
    }


def main() -> int:
    """Compare two binaries; return 1 if Moorage differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for side in ("old", "new"):
        parser.add_argument(f"--{side}", required=True, help=f"the oracle of the {side} release")
        parser.add_argument(f"--{side}-release", required=True, help="its minor version, such as 1.36")
    parser.add_argument("--n", type=int, default=300, help="how many clusters")
    parser.add_argument("--seed", default="releases")
    parser.add_argument("--markdown", action="store_true", help="print tables instead of JSON")
    given = parser.parse_args()
    console = Console(soft_wrap=True, stderr=True)
    sides = (given.old, given.old_release), (given.new, given.new_release)
    comparison = compare_releases(*sides, count=given.n, seed=given.seed, console=console)
    report = "\n".join(comparison.as_markdown()) if given.markdown else json.dumps(comparison.as_json(), indent=1)
    sys.stdout.write(report + "\n")
    return 1 if any(side == OURS for side, _, _ in comparison.counts) else 0


if __name__ == "__main__":
    sys.exit(main())
