"""Names are unambiguous: class names in the entire tree, module names within an area."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "moorage"

NAMED_TWICE_BY_KUBERNETES = {"NodeAffinity"}
"""Names that Kubernetes itself uses twice: for the field of a pod, and for the plugin."""

PER_PACKAGE = {
    *("__init__", "__main__"),
    *("plugin", "filter", "score", "hints"),  # the parts of a plugin
    *("server", "handle", "services", "process"),  # a program, or the same concept at another layer
    *("table", "printing", "parsing"),  # flags and metrics have the same structure
}
"""Module names that are clear only together with their package."""

TO_RENAME = {
    *("scheduler:functions", "scheduler:groups"),
}
"""Duplicates that exist; do not add others."""


@cache
def parse_modules() -> dict[Path, ast.Module]:
    return {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def find_duplicates(names: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    paths_by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in names:
        paths_by_name[name].append(str(path))
    return {name: sorted(paths) for name, paths in paths_by_name.items() if len(paths) > 1}


def test_class_names_are_unique() -> None:
    nodes = ((node, path) for path, tree in parse_modules().items() for node in ast.walk(tree))
    classes = ((node.name, path) for node, path in nodes if isinstance(node, ast.ClassDef))
    duplicates = find_duplicates(classes)
    assert {name: paths for name, paths in duplicates.items() if name not in NAMED_TWICE_BY_KUBERNETES} == {}
    assert duplicates.keys() >= NAMED_TWICE_BY_KUBERNETES, "a name on the list is used once: remove it"


def test_module_names_are_unique_within_an_area() -> None:
    modules = ((f"{path.parts[0]}:{path.stem}", path) for path in parse_modules() if path.stem not in PER_PACKAGE)
    assert find_duplicates(modules).keys() - TO_RENAME == set()
