"""The house stays tidy: no room too large, no function too long to read, no class name that means two things."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "moorage"
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MAX_MODULE = 450
MAX_FUNCTION = 50

NAMED_TWICE_BY_KUBERNETES = {
    "Binding": "the object that is sent to bind a pod, and the binding cycle of a pod",
    "Extender": "an entry of the configuration, and the service that it describes",
    "NodeAffinity": "the field of a pod, and the plugin",
    "Plugin": "an entry of the configuration, and the class that it names",
    "Profile": "an entry of the configuration, and the plugins built from it",
    "RequestedToCapacityRatio": "the arguments, and the strategy that they are for",
}
"""Names that Kubernetes itself uses for two things, which the reader of either expects."""

STILL_NAMED_TWICE = {
    "Answers",
    "Ask",
    "Asked",
    "Change",
    "Cluster",
    "Connection",
    "Failed",
    "Kept",
    "Nomination",
    "OutputFormat",
    "Pace",
    "Page",
    "Search",
    "Service",
    "Share",
    "Source",
    "Strategy",
    "Stream",
    "WaitingPods",
}
"""To be renamed; nothing is added here."""


@cache
def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def test_modules_stay_readable() -> None:
    sizes = {path.relative_to(SOURCE): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > MAX_MODULE} == {}


def test_functions_stay_readable() -> None:
    long = {
        f"{path}:{node.name}": size
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION
    }
    assert long == {}


def test_the_limits_are_those_that_contributors_are_told() -> None:
    rules = " ".join(CONTRIBUTING.read_text().split())
    assert f"functions of more than {MAX_FUNCTION} lines and files of more than {MAX_MODULE}" in rules


def test_a_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    twice = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert NAMED_TWICE_BY_KUBERNETES.keys() <= twice.keys(), "a name on the list is used once: take it off"
    assert {name: paths for name, paths in twice.items() if name not in STILL_NAMED_TWICE} == {
        name: twice[name] for name in NAMED_TWICE_BY_KUBERNETES
    }
