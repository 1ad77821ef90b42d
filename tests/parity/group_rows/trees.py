"""Groups of groups."""

from typing import Final

from tests.parity.group_rows.parts import (
    N1,
    NEVER,
    RETRY,
    SCHEDULE,
    TREES,
    Json,
    Row,
    apply,
    at_once,
    group,
    lows,
    node,
    pod,
    pods,
    tree,
)


def _pair(*peers: str, least: int = 2) -> list[Json]:
    """Make two gangs of two below one tree."""
    return [tree("t", least), *(group(name, 2, parent="t") for name in ("g", "h", *peers))]


TREE_ROWS: Final[dict[str, Row]] = {
    "C1 a tree without its root is incomplete": (
        TREES,
        [
            *apply(N1, group("g", 2, parent="m"), tree("m", 1, parent="t")),
            *at_once(pods(2)),
            *apply(tree("t", 1)),
            *SCHEDULE,
        ],
    ),
    "C2 no nodes, then one": (TREES, [*apply(_pair(), pods(2), pods(2, "h")), *SCHEDULE, *apply(N1), *RETRY]),
    "C3 the second group is created late": (
        TREES,
        [
            *apply(N1, tree("t", 2), group("g", 2, parent="t"), pods(2), pods(2, "h")),
            *apply(group("h", 2, parent="t")),
            *SCHEDULE,
        ],
    ),
    "C4 the last pod is created late": (
        TREES,
        [*apply(N1, _pair(), pods(2), pods(1, "h")), *apply(pods(1, "h", first=1)), *SCHEDULE],
    ),
    "C5 two of three": (
        TREES,
        [*apply(N1, _pair("i"), pods(2), pods(2, "h"), pods(2, "i")), *SCHEDULE, *SCHEDULE],
    ),
    "C6 only one child fits": (TREES, [*apply(node("n1", "3"), _pair(), pods(2), pods(2, "h")), *SCHEDULE]),
    "C7 a basic root with one feasible child": (
        TREES,
        [
            *apply(node("n1", "3"), tree("t"), group("g", 4, parent="t"), group("h", 2, parent="t")),
            *apply(pods(4), pods(2, "h")),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "C8 a basic root without a feasible child": (
        TREES,
        [*apply(node("n1", "1"), _pair(least=0), pods(2), pods(2, "h")), *SCHEDULE],
    ),
    "C9 a branch grows below a running root": (
        TREES,
        [
            *apply(node("n1", "8"), tree("t"), group("g", 2, parent="t"), pods(2)),
            *SCHEDULE,
            *apply(tree("m", 2, parent="t"), group("h", 2, parent="m"), pods(2, "h")),
            *SCHEDULE,
            *apply(group("i", 2, parent="m"), pods(2, "i")),
            *RETRY,
        ],
    ),
    "C11 a tree preempts": (
        TREES,
        [*apply(node("n1", "4"), lows("n1", "n1"), _pair(), pods(2), pods(2, "h")), *SCHEDULE],
    ),
    "C11 a tree whose pods never preempt": (
        TREES,
        [*apply(node("n1", "4"), lows("n1"), _pair(), pods(2, spec=NEVER), pods(2, "h", spec=NEVER)), *SCHEDULE],
    ),
    "a tree that is its own parent": (
        TREES,
        [*apply(N1, tree("t", 1, parent="u"), tree("u", 1, parent="t"), group("g", 1, parent="t"), pods(1))],
    ),
    "children in order of creation, pods elsewhere are seen": (
        TREES,
        [*apply(node("n1", "2"), node("n2", "2"), _pair(), pods(2, "h"), pods(2)), *SCHEDULE],
    ),
    "C sibling: a lower count of a group without pending pods wakes the others": (
        TREES,
        [
            *apply(N1, tree("t", 2), group("g", 1, parent="t"), group("h", 2, parent="t")),
            *apply(pod("h-0", "h", on="n1"), pods(1), group("h", 1, parent="t")),
            *SCHEDULE,
        ],
    ),
}
