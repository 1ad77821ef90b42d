"""Gangs and basic groups: waiting, placing, coming back."""

from typing import Final

from tests.parity.group_rows.parts import (
    GATED,
    GROUPS,
    N1,
    NEVER,
    POLICY,
    RETRY,
    SCHEDULE,
    Row,
    anti,
    apply,
    at_once,
    condition,
    delete,
    finish,
    group,
    node,
    pod,
    pods,
    pop,
    wait,
)

BLOCKER1, BLOCKER2 = pod("blocker", cpu="1", on="n1"), pod("blocker", cpu="2", on="n1")
CLAIM: Final = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "claim", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "pv", "storageClassName": ""},
    "status": {"phase": "Bound"},
}
VOLUME: Final = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "pv"},
    "spec": {
        "accessModes": ["ReadWriteOncePod"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "claim"},
        "hostPath": {"path": "/x"},
    },
    "status": {"phase": "Bound"},
}
USES_CLAIM: Final = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]}

QUEUE_ROWS: Final[dict[str, Row]] = {
    "Q1 a complete gang is bound, then a late member": (
        GROUPS,
        [*apply(N1, group("g", 3), pods(3)), *SCHEDULE, *apply(pods(1, first=3)), *SCHEDULE],
    ),
    "Q2 a gang is gated until it has its members": (
        GROUPS,
        [*apply(N1, group("g", 3), pods(2)), *SCHEDULE, *apply(pods(1, first=2)), *SCHEDULE],
    ),
    "Q3 members wait for their group, then for resources": (
        GROUPS,
        [*apply(N1, BLOCKER2), *at_once(pods(3)), *apply(group("g", 3)), *SCHEDULE, *delete(BLOCKER2), *RETRY],
    ),
    "Q4 resources for the quorum only": (
        GROUPS,
        [
            *apply(N1, BLOCKER1),
            *at_once(pods(4)),
            *apply(group("g", 3)),
            *SCHEDULE,
            *SCHEDULE,
            *delete(BLOCKER1),
            *RETRY,
        ],
    ),
    "Q5 the first complete gang is scheduled": (
        GROUPS,
        [
            *apply(N1, group("g", 3), group("h", 3), pods(2), pods(2, "h"), pods(1, "h", first=2)),
            *apply(pods(1, first=2)),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "Q6 a single pod that was created first": (
        GROUPS,
        [*apply(N1, pod("single", cpu="2"), group("g", 3), pods(3)), *SCHEDULE, *SCHEDULE],
    ),
    "Q7 a basic group uses the available resources": (
        GROUPS,
        [*apply(N1, BLOCKER2), *at_once(pods(3)), *apply(group("g")), *SCHEDULE, *SCHEDULE, *delete(BLOCKER2), *RETRY],
    ),
    "Q8 a smaller minCount requeues a gang": (
        GROUPS,
        [*apply(N1, group("g", 5), pods(4)), *apply(group("g", 4)), *SCHEDULE],
    ),
    "Q9 a smaller minCount makes the gang fit": (
        GROUPS,
        [*apply(N1, group("g", 5), pods(5)), *SCHEDULE, *apply(group("g", 4)), *RETRY, *SCHEDULE],
    ),
    "Q10 a larger minCount requeues no pod": (GROUPS, [*apply(N1, group("g", 5), pods(4)), *apply(group("g", 6))]),
    "Q11 a pod is created during the cycle": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2)), *pop(), *apply(pods(1, first=2)), *finish("scheduled"), *SCHEDULE],
    ),
    "Q12 one scheduling gate holds all back": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(1), pods(1, first=1, spec=GATED)), *apply(pods(1, first=1)), *SCHEDULE],
    ),
    "Q12 one scheduling gate holds a basic group back": (
        GROUPS,
        [*apply(N1, group("g"), pods(1), pods(1, first=1, spec=GATED)), *apply(pods(1, first=1)), *SCHEDULE],
    ),
    "Q13 a gated new member gates its group": (
        GROUPS,
        [
            *apply(N1, group("g", 2), pods(2), pods(1, first=2, spec=GATED)),
            *delete(pods(1, first=2)[0]),
            *wait(240),
            *wait(400),
            *SCHEDULE,
        ],
    ),
    "Q15 a member of a deleted group": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2)), *SCHEDULE, *delete(group("g", 2)), *apply(pods(1, first=2))],
    ),
    "Q16 the group is deleted while members are queued": (
        GROUPS,
        [*apply(N1, group("g", 3), pods(5)), *SCHEDULE, *delete(group("g", 3))],
    ),
    "Q17 a rejected group only backs off": (
        GROUPS,
        [
            *apply(N1, BLOCKER2, group("g", 3), pods(3)),
            *SCHEDULE,
            *wait(1),
            *wait(3),
            *SCHEDULE,
            *wait(1),
            *wait(1),
            *wait(2),
        ],
    ),
    "Q18 the other members keep their position among equals": (
        GROUPS,
        [
            *apply(N1, group("g", 2), pods(3), pod("equal")),
            *pop(),
            *apply(pod("more", priority=200)),
            *finish("scheduled", "g-2"),
            *pop(),
            *pop(),
            *pop(),
        ],
    ),
    "Q19 new members alone are queued behind equals": (
        GROUPS,
        [
            *apply(N1, group("g", 2), pods(2), pod("equal")),
            *pop(),
            *apply(pods(1, first=2)),
            *finish("scheduled"),
            *pop(),
            *pop(),
        ],
    ),
    "Q20 finished with an error": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2)), *pop(), *finish("error", "g-0", "g-1"), *wait(10)],
    ),
    "Q20 finished while a plugin gates a new member": (
        GROUPS,
        [
            *apply(N1, group("g", 2), pods(2)),
            *pop(),
            *apply(pods(1, first=2, spec=GATED)),
            *finish("unschedulable", "g-0", "g-1"),
            *wait(10),
        ],
    ),
    "Q22 the group is deleted while it is in flight": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2)), *pop(), *delete(group("g", 2)), *finish("unschedulable", "g-0", "g-1")],
    ),
    "Q24 a bound member has another priority": (
        GROUPS,
        [*apply(N1, group("g", 2), pod("odd", "g", priority=5, on="n1"), pods(2)), *SCHEDULE],
    ),
    "Q24 a queued member has another priority": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2), pods(1, first=2, priority=5)), *SCHEDULE],
    ),
    "Q25 only the pods of the group may preempt": (
        POLICY,
        [*apply(N1, group("g", 2, **NEVER), pods(2)), *SCHEDULE],
    ),
    "Q25 members of two preemption policies": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(1), pods(1, first=1, spec=NEVER)), *SCHEDULE],
    ),
    "Q27 a member is being deleted": (
        GROUPS,
        [
            *apply(N1, group("g", 3), pods(2)),
            *apply(pods(1, first=2, metadata={"deletionTimestamp": "2026-01-01T00:10:00Z"})),
            *SCHEDULE,
        ],
    ),
    "Q28 a scheduled group remains scheduled": (
        GROUPS,
        [
            *apply(node("n1", "2"), group("g", 2, status=condition("True", "Scheduled", ""))),
            *apply(pods(3)),
            *SCHEDULE,
            *SCHEDULE,
        ],
    ),
    "Q29 another reason replaces the first": (
        GROUPS,
        [*apply(N1, BLOCKER2, group("g", 3, status=condition("False", "Unschedulable", "A")), pods(3)), *SCHEDULE],
    ),
    "Q29 the same reason is written once": (
        GROUPS,
        [
            *apply(node("n1", "2"), group("g", 2), pods(2), BLOCKER1),
            *SCHEDULE,
            *apply(
                group(
                    "g",
                    2,
                    status=condition(
                        "False",
                        "Unschedulable",
                        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, "
                        "pod group preemption: No preemption victims found for incoming preemptor",
                    ),
                )
            ),
            *RETRY,
        ],
    ),
    "Q30 members affect each other: two nodes": (
        GROUPS,
        [*apply(N1, node("n2"), group("g", 2), pods(2, metadata={"labels": {"team": "a"}}, spec=anti("a"))), *SCHEDULE],
    ),
    "Q30 members affect each other: one node": (
        GROUPS,
        [*apply(N1, group("g", 2), pods(2, metadata={"labels": {"team": "a"}}, spec=anti("a"))), *SCHEDULE],
    ),
    "Q31 two members share a volume that one pod may use": (
        GROUPS,
        [*apply(N1, VOLUME, CLAIM, group("g", 2), pods(2, spec=USES_CLAIM)), *SCHEDULE],
    ),
    "Q33 the quorum runs, and the new member fits on no node": (
        GROUPS,
        [*apply(N1, group("g", 3), [pod(f"b{n}", "g", on="n1") for n in range(3)], pods(1, cpu="8")), *SCHEDULE],
    ),
    "no nodes at all": (GROUPS, [*apply(group("g", 2), pods(2)), *SCHEDULE]),
    "a member whose claim is missing": (GROUPS, [*apply(N1, group("g", 2), pods(2, spec=USES_CLAIM)), *SCHEDULE]),
    "the gate is off": ({}, [*apply(N1, group("g", 3), pods(2)), *SCHEDULE, *SCHEDULE]),
}
