"""Sets of fields: the paths that a manager owns, in the notation of managedFields.

A path is a tuple of ``f:name`` for a field, ``k:{…}`` for an item of a list with keys, and ``v:…`` for an item of a
set. A tree is the same set as nested objects, as the API writes it: an empty object is a path of the set, and ``.``
adds the path of an object that has fields below it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Tree = dict[str, Any]
Path = tuple[str, ...]


def list_paths(tree: Tree, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of a tree."""
    for key, below in tree.items():
        if key == ".":
            yield above
        elif below:
            yield from list_paths(below, (*above, key))
        else:
            yield (*above, key)


def build_tree(paths: Iterable[Path]) -> Tree:
    """Return the tree of some paths."""
    tree: Tree = {}
    for path in sorted(paths):
        insert(tree, path)
    return tree


def insert(tree: Tree, path: Path) -> None:
    """Add a path to a tree."""
    for key in path[:-1]:
        below = tree.get(key)
        if below is None:
            below = tree[key] = {}
        elif not below:
            # It was a path of the set itself, and remains one.
            below["."] = {}
        tree = below
    if tree.setdefault(path[-1], {}):
        tree[path[-1]]["."] = {}


def discard(tree: Tree, path: Path) -> bool:
    """Remove a path from a tree, with parents that become empty. Return whether the tree had it."""
    parents = [tree]
    for key in path[:-1]:
        below = parents[-1].get(key)
        if not below:
            return False
        parents.append(below)
    last = parents[-1].get(path[-1])
    if last is None or (last and "." not in last):
        return False
    if last:
        del last["."]
        return True
    del parents[-1][path[-1]]
    for parent, key in zip(reversed(parents[:-1]), reversed(path[:-1]), strict=True):
        if parent[key]:
            if parent[key].keys() == {"."}:
                parent[key] = {}
            break
        del parent[key]
    return True


def write_path(path: Path) -> str:
    """Write a path as the API does in its messages: ``.spec.containers[name="a"].image``."""
    text = ""
    for key in path:
        if key.startswith("f:"):
            text += f".{key[2:]}"
        elif key.startswith("k:"):
            keys = msgspec.json.decode(key[2:])
            text += "[" + ",".join(f"{name}={msgspec.json.encode(item).decode()}" for name, item in keys.items()) + "]"
        elif key.startswith("v:"):
            text += f"[={key[2:]}]"
    return text
