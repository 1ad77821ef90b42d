"""Groups that are to remain within a rack or a zone."""

from typing import Final

from tests.parity.group_rows.parts import (
    N1,
    RETRY,
    SCHEDULE,
    TOPOLOGY,
    TREES,
    Row,
    apply,
    delete,
    group,
    lows,
    node,
    pod,
    pods,
    tree,
)

TOPOLOGY_ROWS: Final[dict[str, Row]] = {
    "T1 only one rack holds the gang": (
        TOPOLOGY,
        [
            *apply(node("a1", "3", rack="1"), node("b1", "3", rack="2"), pod("out", on="b1")),
            *apply(group("g", 3, by="rack"), pods(3)),
            *SCHEDULE,
        ],
    ),
    "T2 no rack holds it, the cluster would": (
        TOPOLOGY,
        [*apply(node("a1", "2", rack="1"), node("b1", "2", rack="2"), group("g", 3, by="rack"), pods(3)), *SCHEDULE],
    ),
    "T4 the fullest rack wins": (
        TOPOLOGY,
        [
            *apply(node("a1", "4", rack="1"), node("b1", "6", rack="2"), node("c1", "9", rack="3")),
            *apply(node("d1", "2", rack="4"), pod("o1", on="b1", cpu="2"), pod("o2", on="c1", cpu="3")),
            *apply(group("g", 3, by="rack"), pods(3)),
            *SCHEDULE,
        ],
    ),
    "T5 later members are pinned to the rack": (
        TOPOLOGY,
        [
            *apply(node("a1", "4", rack="1"), node("b1", "6", rack="2"), node("c1", "1", rack="3")),
            *apply(group("g", 3, by="rack"), pods(3)),
            *SCHEDULE,
            *apply(pods(1, first=3)),
            *SCHEDULE,
            *apply(pods(1, first=4)),
            *SCHEDULE,
        ],
    ),
    "T6 preemption in the pinned rack only": (
        TOPOLOGY,
        [
            *apply(node("a1", "4", rack="1"), node("b1", "6", rack="2"), lows("a1")),
            *apply(group("g", 3, by="rack"), pods(3)),
            *SCHEDULE,
            *apply(pods(1, first=3)),
            *SCHEDULE,
            *delete(lows("a1")[0]),
            *RETRY,
            *apply(pods(1, first=4)),
            *SCHEDULE,
        ],
    ),
    "T7 the rack with more members": (
        TOPOLOGY,
        [
            *apply(node("a1", "2", rack="1"), node("b1", "3", rack="2"), node("b2", "3", rack="2")),
            *apply(group("g", 2, by="rack"), pods(3)),
            *SCHEDULE,
        ],
    ),
    "T8 a basic group runs in one rack": (
        TOPOLOGY,
        [
            *apply(node("a1", "2", rack="1"), node("b1", "2", rack="2"), pod("o", on="b1", cpu="500m")),
            *apply(group("g", by="rack"), pods(3)),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "T9 the first pod of a basic group pins the group to its rack": (
        TOPOLOGY,
        [
            *apply(node("a1", "8", rack="1"), node("b1", "4", rack="2"), pod("o1", on="a1", cpu="2")),
            *apply(pod("o2", on="b1", cpu="2"), group("g", by="rack"), pods(1)),
            *SCHEDULE,
            *apply(pods(2, first=1)),
            *SCHEDULE,
            *SCHEDULE,
            *delete(pod("o2", on="b1", cpu="2")),
            *RETRY,
        ],
    ),
    "T10 two gangs, by rack and by zone": (
        TOPOLOGY,
        [
            *apply(node("a1", "3", rack="1", zone="a"), node("a2", "1", rack="2", zone="a")),
            *apply(node("b1", "2", rack="3", zone="b"), node("b2", "2", rack="4", zone="b")),
            *apply(group("g", 3, by="rack"), pods(3), group("h", 3, by="zone"), pods(3, "h")),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "T11 preemption in one of two racks": (
        TOPOLOGY,
        [
            *apply(node("a1", "2", rack="1"), node("b1", "3", rack="2"), lows("a1", "a1", "b1", "b1")),
            *apply(group("g", 2, by="rack"), pods(2)),
            *SCHEDULE,
        ],
    ),
    "T12 no node has the label": (TOPOLOGY, [*apply(N1, group("g", 2, by="rack"), pods(2)), *SCHEDULE]),
    "T13 bound members in two domains": (
        TOPOLOGY,
        [
            *apply(node("a1", rack="1"), node("b1", rack="2"), group("g", 2, by="rack")),
            *apply(pod("x", "g", on="a1"), pod("y", "g", on="b1"), pods(1)),
            *SCHEDULE,
        ],
    ),
    "T13 a bound member on a node without the label": (
        TOPOLOGY,
        [
            *apply(node("a1", rack="1"), node("b1"), group("g", 2, by="rack"), pod("y", "g", on="b1"), pods(1)),
            *SCHEDULE,
        ],
    ),
    "T15 a tree by zone, its groups by rack": (
        TREES,
        [
            *apply(node("a1", "2", rack="1", zone="a"), node("a2", "2", rack="2", zone="a")),
            *apply(node("b1", "2", rack="3", zone="b"), node("b2", "3", rack="4", zone="b")),
            *apply(tree("t", 2, by="zone"), group("g", 2, by="rack", parent="t"), group("h", 2, by="rack", parent="t")),
            *apply(pods(2), pods(2, "h")),
            *SCHEDULE,
        ],
    ),
    "T15 a bound pod pins zone and rack": (
        TREES,
        [
            *apply(node("a1", "2", rack="1", zone="a"), node("a2", "2", rack="2", zone="a")),
            *apply(node("b1", "2", rack="3", zone="b"), node("b2", "3", rack="4", zone="b")),
            *apply(tree("t", 2, by="zone"), group("g", 2, by="rack", parent="t"), group("h", 2, by="rack", parent="t")),
            *apply(pod("g-9", "g", on="b2"), pods(2), pods(2, "h")),
            *SCHEDULE,
        ],
    ),
}
