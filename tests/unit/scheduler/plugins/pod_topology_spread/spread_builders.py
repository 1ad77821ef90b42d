"""Pods with spread constraints in one line, and a small cluster."""

from moorage.kube.api.affinity import Taint, TopologySpreadConstraint
from moorage.kube.api.cluster import (
    Service,
    ServiceSpec,
)
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
)
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.pod_topology_spread.filter import LABEL_MISSING, TOO_UNEVEN
from moorage.testing import make_node, make_pod

WEB = LabelSelector(match_labels={"app": "web"})
SOFT = "ScheduleAnyway"


def spread(skew: int = 1, key: str = "zone", **fields: object) -> TopologySpreadConstraint:
    """Spread the pods of app web; hard by default."""
    stored = {"when_unsatisfiable": "DoNotSchedule", "label_selector": WEB, **fields}
    return TopologySpreadConstraint(max_skew=skew, topology_key=key, **stored)  # type: ignore[arg-type]


def pod(*constraints: TopologySpreadConstraint, app: str = "web", name: str = "web", **fields: object) -> Pod:
    labels = {"app": app, **fields.pop("labels", {})}  # type: ignore[dict-item]
    return make_pod(name, labels=labels, topology_spread_constraints=constraints, **fields)  # type: ignore[arg-type]


def on(*nodes: str, **fields: object) -> list[Pod]:
    """Put a pod of app web on each node."""
    return [pod(name=f"p{number}-{node}", node=node, **fields) for number, node in enumerate(nodes)]  # type: ignore[arg-type]


DEDICATED = Taint("dedicated", "x", "NoSchedule")
# Zones a and b of two nodes each, zone c of one, and a node in none.
CLUSTER = (
    make_node("a1", labels={"zone": "a"}),
    make_node("a2", labels={"zone": "a"}),
    make_node("b1", labels={"zone": "b"}),
    make_node("b2", labels={"zone": "b"}),
    make_node("c1", labels={"zone": "c", "tier": "x"}, taints=[DEDICATED]),
    make_node("bare"),
)


def verdict(pattern: str) -> list[Status | None]:
    """Spell the verdicts on the nodes: ``.`` accepted, ``u`` too uneven, ``m`` label missing."""
    return [{".": None, "u": TOO_UNEVEN, "m": LABEL_MISSING}[letter] for letter in pattern]


def soft(skew: int = 1, key: str = "zone", **fields: object) -> TopologySpreadConstraint:
    return spread(skew, key, when_unsatisfiable=SOFT, **fields)


def service(name: str = "web", namespace: str = "default", **selector: str) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=selector or None))
