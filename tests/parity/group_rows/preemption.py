"""Groups that evict, and groups that are evicted."""

from typing import Final

from tests.parity.group_rows.parts import (
    GROUPS,
    NEVER,
    POLICY,
    RETRY,
    SCHEDULE,
    TERMINATING,
    TOPOLOGY,
    TREES,
    Row,
    anti,
    apply,
    budget,
    delete,
    group,
    lows,
    node,
    pod,
    pods,
    preferring,
    tree,
)

PREEMPTION_ROWS: Final[dict[str, Row]] = {
    "P1 a gang evicts three": (
        GROUPS,
        [*apply(node("n1", "3"), lows("n1", "n1", "n1"), group("g", 3), pods(3)), *SCHEDULE],
    ),
    "P1 a basic group evicts three": (
        GROUPS,
        [*apply(node("n1", "3"), lows("n1", "n1", "n1"), group("g"), pods(3)), *SCHEDULE],
    ),
    "P3 the pod without a budget is evicted": (
        GROUPS,
        [
            *apply(node("n1", "3"), budget(0, team="a"), lows("n1", "n1", metadata={"labels": {"team": "a"}})),
            *apply(pod("bare", priority=10, on="n1"), group("g", 2), pods(2, cpu="500m")),
            *SCHEDULE,
        ],
    ),
    "P4 all over both nodes": (
        GROUPS,
        [*apply(node("n1", "2"), node("n2", "2"), lows("n1", "n1", "n2", "n2"), group("g", 4), pods(4)), *SCHEDULE],
    ),
    "P5 two are not enough": (
        GROUPS,
        [
            *apply(node("n1", "3"), pod("top", priority=500, on="n1"), lows("n1", "n1"), group("g", 3), pods(3)),
            *SCHEDULE,
        ],
    ),
    "P6 the more important is reprieved": (
        GROUPS,
        [
            *apply(node("n1", "3"), pod("mid", priority=50, on="n1"), lows("n1", "n1"), group("g", 2), pods(2)),
            *SCHEDULE,
        ],
    ),
    "P7 a victim group is evicted as a unit": (
        GROUPS,
        [
            *apply(node("n1", "3"), group("v", 3, priority=10, mode="all")),
            *apply([pod(f"v-{n}", "v", priority=10, on="n1") for n in range(3)], group("g", 1), pods(1)),
            *SCHEDULE,
        ],
    ),
    "P7 a victim group of single pods": (
        GROUPS,
        [
            *apply(node("n1", "3"), group("v", 3, priority=10)),
            *apply([pod(f"v-{n}", "v", priority=10, on="n1") for n in range(3)], group("g", 1), pods(1)),
            *SCHEDULE,
        ],
    ),
    "P8 the quorum preempts, the other members wait": (
        GROUPS,
        [
            *apply([node(f"n{n}", "1") for n in range(4)], lows("n0", "n1")),
            *apply([pod(f"top-{n}", priority=200, on=f"n{n}") for n in (2, 3)], group("g", 1), pods(3)),
            *SCHEDULE,
        ],
    ),
    "P9 a less important group before a pod": (
        GROUPS,
        [
            *apply(node("n1", "1"), node("n2", "1"), node("n3", "1"), group("v", 2, priority=50, mode="all")),
            *apply([pod(f"v-{n}", "v", priority=50, on=f"n{n}") for n in (1, 2)], lows("n3"), group("g", 3), pods(3)),
            *SCHEDULE,
        ],
    ),
    "P10 members are created one by one, and evicted together": (
        GROUPS,
        [
            *apply([node(f"n{n}", "1") for n in range(4)], group("v", 2, priority=10, mode="all")),
            *apply([pod(f"v-{n}", "v", priority=10, on=f"n{n}") for n in (0, 1)], group("top", 2, priority=200)),
            *apply([pod(f"top-{n}", "top", priority=200, on=f"n{n}") for n in (2, 3)]),
            *apply(group("g", 1), pods(1, spec=preferring("n0"))),
            *SCHEDULE,
            *[step for n in (0, 1) for step in delete(pod(f"v-{n}", "v", priority=10, on=f"n{n}"))],
            *RETRY,
            *apply(pods(1, first=1)),
            *SCHEDULE,
            *apply(pods(1, first=2)),
            *SCHEDULE,
        ],
    ),
    "P11 the group never preempts": (
        POLICY,
        [*apply(node("n1", "1"), lows("n1"), group("g", 1, **NEVER), pods(1, spec=NEVER)), *SCHEDULE],
    ),
    "P11 the pods never preempt": (
        GROUPS,
        [*apply(node("n1", "1"), lows("n1"), group("g", 1), pods(1, spec=NEVER)), *SCHEDULE],
    ),
    "P12 a pod with anti-affinity to the group": (
        GROUPS,
        [
            *apply(node("n1", "4"), node("n2", "4"), lows("n1", metadata={"labels": {"team": "a"}})),
            *apply(pod("far", priority=5, on="n2", cpu="3"), group("g", 3), pods(3, cpu="2", spec=anti("a"))),
            *SCHEDULE,
        ],
    ),
    "P13 pods on other nodes are not evicted, even with a low priority": (
        GROUPS,
        [
            *apply(node("n1", "5"), node("n2", "1"), lows("n1", metadata={"labels": {"team": "a"}})),
            *apply(pod("far", priority=5, on="n2"), group("g", 2), pods(2, cpu="2", spec=anti("a"))),
            *SCHEDULE,
        ],
    ),
    "P15 some members are bound, then the group preempts": (
        GROUPS,
        [
            *apply(node("n1", "4"), group("g", 2), [pod(f"b{n}", "g", on="n1") for n in range(2)], lows("n1"), pods(2)),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "P16 the only rack is full of less important pods": (
        TOPOLOGY,
        [*apply(node("a1", "2", rack="1"), lows("a1", "a1"), group("g", 2, by="rack"), pods(2)), *SCHEDULE],
    ),
    "P16 one of two racks is full of more important pods": (
        TOPOLOGY,
        [
            *apply(node("a1", "2", rack="1"), node("b1", "2", rack="2"), lows("b1", "b1")),
            *apply([pod(f"top-{n}", priority=200, on="a1") for n in range(2)], group("g", 2, by="rack"), pods(2)),
            *SCHEDULE,
        ],
    ),
    "P16 half of either rack is full of more important pods": (
        TOPOLOGY,
        [
            *apply(node("a1", "2", rack="1"), node("b1", "2", rack="2"), lows("a1", "b1")),
            *apply([pod(f"top-{place}", priority=200, on=place) for place in ("a1", "b1")]),
            *apply(group("g", 2, by="rack"), pods(2)),
            *SCHEDULE,
        ],
    ),
    "P17 victims are terminating": (
        GROUPS,
        [
            *apply(node("n1", "1"), node("n2", "1"), pod("leaving", priority=10, on="n1", **TERMINATING)),
            *apply(group("g", 2), pods(2, status={"nominatedNodeName": "n1"})),
            *SCHEDULE,
        ],
    ),
    "P19 the priority of the group is used": (
        GROUPS,
        [
            *apply(node("n1", "1"), group("v", 1, priority=200), pod("v-0", "v", priority=10, on="n1")),
            *apply(group("g", 1), pods(1), pod("single")),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "P20 a single pod evicts a complete tree": (
        TREES,
        [
            *apply(node("n1", "1"), node("n2", "1"), tree("t", 1, priority=10, mode="all")),
            *apply(group("v", 1, priority=10, parent="t"), group("w", 1, priority=10, parent="t")),
            *apply(pod("v-0", "v", priority=10, on="n1"), pod("w-0", "w", priority=10, on="n2")),
            *apply(pod("single", spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})),
            *SCHEDULE,
        ],
    ),
    "P20 a single pod evicts one of a tree": (
        TREES,
        [
            *apply(node("n1", "1"), node("n2", "1"), tree("t", 1, priority=10)),
            *apply(group("v", 1, priority=10, parent="t"), group("w", 1, priority=10, parent="t")),
            *apply(pod("v-0", "v", priority=10, on="n1"), pod("w-0", "w", priority=10, on="n2")),
            *apply(pod("single", spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}})),
            *SCHEDULE,
        ],
    ),
    "P21 a group's pod before a tree": (
        TREES,
        [
            *apply(node("n1", "2"), tree("t", 1, priority=10, mode="all"), group("v", 1, priority=10, parent="t")),
            *apply(group("w", 1, priority=10), pod("v-0", "v", priority=10, on="n1")),
            *apply(pod("w-0", "w", priority=10, on="n1"), group("g", 1), pods(1)),
            *SCHEDULE,
        ],
    ),
    "P22 the tree without a budget is evicted": (
        TREES,
        [
            *apply(node("n1", "3"), budget(0, team="a"), tree("t", 1, priority=10, mode="all")),
            *apply(tree("u", 1, priority=10, mode="all"), group("v", 1, priority=10, parent="t")),
            *apply(group("w", 1, priority=10, parent="u"), [pod(f"w-{n}", "w", priority=10, on="n1") for n in (0, 1)]),
            *apply(pod("v-0", "v", priority=10, on="n1", metadata={"labels": {"team": "a"}}), group("g", 1), pods(1)),
            *SCHEDULE,
        ],
    ),
    "P23 grandparent all, parent single": (
        TREES,
        [
            *apply(node("n1", "2"), tree("t", 1, priority=10, mode="all"), tree("u", 1, priority=10, parent="t")),
            *apply(group("v", 1, priority=10, parent="u"), group("w", 1, priority=10, parent="t")),
            *apply(
                pod("v-0", "v", priority=10, on="n1"), pod("w-0", "w", priority=10, on="n1"), group("g", 1), pods(1)
            ),
            *SCHEDULE,
        ],
    ),
    "P23 grandparent single, parent all": (
        TREES,
        [
            *apply(node("n1", "3"), tree("t", 1, priority=10), tree("u", 1, priority=10, parent="t", mode="all")),
            *apply(group("v", 1, priority=10, parent="u"), group("w", 1, priority=10, parent="t")),
            *apply([pod(f"v-{n}", "v", priority=10, on="n1") for n in range(2)]),
            *apply(pod("w-0", "w", priority=10, on="n1"), group("g", 2), pods(2)),
            *SCHEDULE,
        ],
    ),
    "P24 the tree of the victim was deleted": (
        TREES,
        [
            *apply(node("n1", "2"), group("v", 1, priority=10, parent="t")),
            *apply([pod(f"v-{n}", "v", priority=10, on="n1") for n in range(2)], group("g", 1), pods(1)),
            *SCHEDULE,
        ],
    ),
}
