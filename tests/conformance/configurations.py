"""Complete configurations with the oracles of two releases, and with Moorage.

python -m tests.conformance.configurations --old ORACLE --old-release 1.36 --new ORACLE --new-release 1.37 --n 300

Random configurations, a part of them invalid, are completed as kube-scheduler's --write-config-to does.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.common.errors import ConfigErrors
from moorage.common.version import RELEASES
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import completed_view, load_config
from tests.conformance.answers import Comparison, arguments, show
from tests.conformance.generator.config import make_config
from tests.conformance.generator.dice import Dice
from tests.conformance.ours import BASE_GATES

NODES: Final = ["n1", "n2", "n3"]
SECTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"leaderElection": {"leaderElect": False, "leaseDuration": "30s", "renewDeadline": "20s", "resourceName": "mine"}},
    {"leaderElection": {"leaseDuration": "10s", "renewDeadline": "10s"}},
    {"clientConnection": {"qps": 12.5, "burst": 20, "contentType": "application/json"}},
    {"clientConnection": {"burst": -1}},
    {"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 20},
    {"podInitialBackoffSeconds": 20, "podMaxBackoffSeconds": 2},
    {"delayCacheUntilActive": True, "enableProfiling": False, "enableContentionProfiling": False},
    {"extenders": [{"urlPrefix": "https://e.example/v1", "filterVerb": "filter", "weight": 1, "ignorable": True}]},
    {"extenders": [{"urlPrefix": "https://e.example", "prioritizeVerb": "rate", "weight": 0}]},
    {"extenders": [{"urlPrefix": "https://e.example", "bindVerb": "bind"}, {"urlPrefix": "/", "bindVerb": "bind"}]},
    {"extenders": [{"urlPrefix": "https://e.example", "managedResources": [{"name": "cpu"}, {"name": "a/b"}]}]},
)
VALUES: Final[dict[type, tuple[Any, ...]]] = {
    bool: (False, True),
    int: (-1, 0, 1, 100, 101, 2**31 - 1),
    float: (-1.0, 0.0),
    str: ("", "1s", "-5s", "example.com/x", "NodeName", "x" * 64),
}
"""Values that replace one of the same type."""
_OTHER_TEXTS: Final = ("strict decoding error", "cannot unmarshal", "does not exist")
"""Parts of errors for which Moorage has another text: of Go's decoder, and of unknown plugins."""


def make(number: int, seed: str) -> dict[str, Any]:
    """Make a configuration; half of them have one changed value, so some of these are invalid."""
    dice = Dice(f"{seed}/{number}")
    config: dict[str, Any] = json.loads(json.dumps(make_config(dice, NODES, search="config")))
    for section in dice.some(SECTIONS, 0, 2):
        config |= section
    if dice.chance(0.5):
        leaves = [*_leaves({name: value for name, value in config.items() if name not in ("apiVersion", "kind")})]
        container, key = dice.pick(leaves)
        container[key] = dice.pick(VALUES[type(container[key])])
    if dice.chance(0.1):
        config["profiles"].append(config["profiles"][0])
    return config


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _leaves(item)
        else:
            yield value, key


def ask(binary: str, configs: Sequence[Any], emulated: str = "") -> list[Any]:
    """Complete configurations with an oracle; errors are texts."""
    command = [binary, "config", "--stream", *(["--emulated-version", emulated] if emulated else [])]
    lines = "".join(json.dumps({"config": config}) + "\n" for config in configs)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    answers = (json.loads(line) for line in ran.stdout.splitlines())
    return [answer.get("error") or answer["config"] for answer in answers]


def complete(config: Any, release: str) -> Any:
    """Complete a configuration with Moorage; errors are lists of problems, without their locations."""
    gates = FeatureGates({name: on for name, on in BASE_GATES.items() if release != RELEASES[-1]}, release=release)
    try:
        return json.loads(json.dumps(completed_view(load_config(json.dumps(config), gates=gates))))
    except ConfigErrors as errors:
        return [error.problem for error in errors.errors]


def classify(before: Any, after: Any) -> list[tuple[str, str]]:
    """Return the differences of two documents by path, or of two errors; errors of Moorage are lists."""
    if before == after:
        return []
    is_valid = isinstance(before, dict), isinstance(after, dict)
    if all(is_valid):
        return [(f"document: {path}", show(old, new)) for path, (old, new) in dict(_changes(before, after, "")).items()]
    if any(is_valid):
        return [("accepted", f"{before}")] if is_valid[1] else [("rejected", f"{after}")]
    if isinstance(after, list) and any(text in before for text in (*_OTHER_TEXTS, *after)):
        # kube-scheduler stops at the first kind of problem; Moorage reports all.
        return []
    return [("error", show(before, after))]


def _changes(before: Any, after: Any, path: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}".removeprefix("."))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            yield from _changes(old, new, f"{path}[]")
    elif before != after:
        yield path, (before, after)


def main() -> int:
    """Compare two oracles and Moorage; return 1 if Moorage differs."""
    given = arguments(__doc__, count=300)
    configs = [make(number, given.seed) for number in range(given.n)]
    result = Comparison([f"{given.seed}/{number}" for number in range(given.n)])
    new, emulated = ask(given.new, configs), ask(given.new, configs, given.old_release)
    result.upstream(ask(given.old, configs), new, emulated, [classify] * given.n)
    for release, theirs in {given.old_release: emulated, given.new_release: new}.items():
        if release in RELEASES:
            result.ours(release, theirs, [complete(config, release) for config in configs], [classify] * given.n)
    return result.print("Configurations")


if __name__ == "__main__":
    sys.exit(main())
