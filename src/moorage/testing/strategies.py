"""Random small clusters with many edge cases, for property tests with hypothesis.

There are few values, so that conflicts are frequent: labels match, ports conflict, half of the taints are tolerated,
nodes are exactly full.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from moorage.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.container import Container, ContainerPort, ResourceRequirements
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.testing.builders import make_node, make_pod

GPU: Final = "example.com/gpu"
NAMESPACES: Final = ("default", "other")
TOPOLOGY_KEYS: Final = (ZONE_LABEL, HOSTNAME_LABEL, "rack")
_APPS: Final = ("web", "db")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def nodes(name: str = "node") -> st.SearchStrategy[Node]:
    """Draw a node: some have no zone, no rack, no memory, no pod capacity, or a taint twice."""
    return _node_facts().map(partial(_node, name))


def pods(name: str = "pod") -> st.SearchStrategy[Pod]:
    """Draw a pod that requests resources which nodes may lack."""
    return _pod_facts().map(lambda facts: make_pod(name, uid=f"uid-{name}", **facts))


@st.composite
def clusters(draw: st.DrawFn, max_nodes: int = 5, max_pods: int = 5) -> tuple[KubeObject, ...]:
    """Draw the objects of a cluster: nodes, pods on them whether they fit or not, and namespaces with labels."""
    facts = draw(st.lists(_node_facts(), min_size=1, max_size=max_nodes))
    nodes = [_node(f"n{index}", item) for index, item in enumerate(facts)]
    running_pods = [
        draw(pods(f"p{index}")).on_node(draw(st.sampled_from(nodes)).name)
        for index in range(draw(st.integers(0, max_pods)))
    ]
    namespaces = [Namespace(metadata=ObjectMeta(name=name, labels={"team": name})) for name in NAMESPACES]
    return (*namespaces, *nodes, *running_pods)


def _node(name: str, facts: dict[str, Any]) -> Node:
    node = make_node(name, **{key: value for key, value in facts.items() if key != "is_nameless"})
    if not facts["is_nameless"]:
        return node
    labels = {key: value for key, value in node.labels.items() if key != HOSTNAME_LABEL}
    return replace(node, metadata=replace(node.metadata, labels=labels))


@cache
def _node_facts() -> st.SearchStrategy[dict[str, Any]]:
    amounts = {
        "cpu": st.sampled_from([0, 1, "2", "3999m", "4"]),
        "memory": st.sampled_from([0, "1Gi", "3Gi", "8Gi", 100_000_001]),
        "pods": st.sampled_from([0, 1, 2, 110]),
        "ephemeral-storage": st.sampled_from([0, "1Gi"]),
        GPU: st.sampled_from([0, 1, 4]),
    }
    return st.fixed_dictionaries(
        {
            "labels": st.fixed_dictionaries(
                {},
                optional={
                    "disk": st.sampled_from(["ssd", "hdd", ""]),
                    "cores": st.sampled_from(["2", "8", "-1", "many"]),
                    "rack": st.sampled_from(["r1", "r2"]),
                },
            ),
            "zone": st.sampled_from(["", "east", "west"]),
            "allocatable": st.fixed_dictionaries({}, optional=amounts),
            "taints": st.lists(taints(), max_size=3),
            "cordoned": st.sampled_from([False, False, True]),
            "images": st.dictionaries(st.sampled_from(["app:1", "db:latest"]), st.sampled_from([1, 30 << 20, 2 << 30])),
            "features": st.lists(st.sampled_from(["UserNamespacesHostNetworkSupport", "Unknown"]), unique=True),
            "is_nameless": st.sampled_from([False, False, False, True]),
        }
    )


def taints() -> st.SearchStrategy[Taint]:
    """Draw a taint of a few keys and values."""
    return st.builds(Taint, st.sampled_from("ab"), st.sampled_from(["", "x", "5"]), st.sampled_from(_EFFECTS))


def tolerations() -> st.SearchStrategy[Toleration]:
    """Draw a toleration. Some match no taint."""
    return st.builds(
        Toleration,
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "Equal", "Exists", "Gt"]),
        st.sampled_from(["", "x"]),
        st.sampled_from(["", *_EFFECTS]),
    )


def requests() -> st.SearchStrategy[dict[str, str | int]]:
    """Draw the requests of a container: none, an explicit zero, or more than any node has."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from([0, "100u", "100m", "1", "1500m", "5"]),
            "memory": st.sampled_from([0, 1, "300Mi", "1Gi", "1.5Gi", "1T"]),
            "ephemeral-storage": st.sampled_from([0, "1Gi"]),
            GPU: st.integers(0, 2),
        },
    )


@cache
def _pod_facts() -> st.SearchStrategy[dict[str, Any]]:
    label_values = {"app": st.sampled_from(_APPS), "tier": st.sampled_from(["1", "2"])}
    return st.fixed_dictionaries(
        {
            "namespace": st.sampled_from(NAMESPACES),
            "labels": st.fixed_dictionaries({}, optional=label_values),
            "containers": st.lists(_containers([None]), min_size=1, max_size=2).map(tuple),
            "init_containers": st.lists(_containers([None, "Always"]), max_size=2).map(tuple),
            "priority": st.sampled_from([None, -10, 0, 100]),
            "tolerates": st.lists(tolerations(), max_size=2),
            "node_selector": st.sampled_from([None, None, {}, {"disk": "ssd"}]),
            "affinity": st.none() | affinities(),
            "topology_spread_constraints": st.lists(spread_constraints(), max_size=2).map(tuple),
            "overhead": st.sampled_from([{}, {}, {"cpu": "50m"}]),
            "resources": st.none() | st.builds(ResourceRequirements, requests()),
            "host_network": st.booleans(),
            "host_users": st.sampled_from([None, True, False]),
            "terminating": st.sampled_from([False, False, True]),
        }
    )


def _containers(restart_policies: Sequence[str | None]) -> st.SearchStrategy[Container]:
    ports = st.builds(
        ContainerPort,
        st.just(80),
        st.sampled_from([0, 80, 81]),
        st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["", "TCP", "UDP"]),
    )
    return st.builds(
        Container,
        st.just("main"),
        st.sampled_from(["app:1", "db", "none@sha256:0"]),
        st.builds(ResourceRequirements, requests()),
        st.lists(ports, max_size=1).map(tuple),
        st.sampled_from(restart_policies),
    )


def affinities() -> st.SearchStrategy[Affinity]:
    """Draw node and pod affinity, required and preferred. Some terms are impossible."""
    weights = st.integers(1, 100)
    preferred = st.builds(PreferredSchedulingTerm, st.integers(0, 100), _node_terms(["In", "NotIn", "Exists", "Gt"]))
    required = st.builds(
        NodeSelector, st.lists(_node_terms(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"])).map(tuple)
    )
    wishes = st.lists(st.builds(WeightedPodAffinityTerm, weights, pod_affinity_terms()), max_size=2).map(tuple)
    demands = st.lists(pod_affinity_terms(), max_size=2).map(tuple)
    return st.builds(
        Affinity,
        st.none()
        | st.builds(NodeAffinity, st.none() | required, st.none() | st.lists(preferred, max_size=2).map(tuple)),
        st.none() | st.builds(PodAffinity, demands, wishes),
        st.none() | st.builds(PodAntiAffinity, demands, wishes),
    )


@st.composite
def _node_terms(draw: st.DrawFn, operators: Sequence[str]) -> NodeSelectorTerm:
    expressions = []
    for _ in range(draw(st.integers(0, 2))):
        operator = draw(st.sampled_from(operators))
        key = draw(st.sampled_from(["disk", "cores", ZONE_LABEL, HOSTNAME_LABEL]))
        values = {"Exists": (), "DoesNotExist": (), "Gt": ("2",), "Lt": ("8",)}.get(operator)
        if values is None:
            values = tuple(draw(st.lists(st.sampled_from(["ssd", "", "2", "east", "n1"]), min_size=1, max_size=2)))
        expressions.append(NodeSelectorRequirement(key, operator, values))
    fields = st.builds(
        NodeSelectorRequirement,
        st.just("metadata.name"),
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from([("n0",), ("n1",), ("gone",)]),
    )
    return NodeSelectorTerm(tuple(expressions), draw(st.lists(fields, max_size=1).map(tuple)))


def label_selectors() -> st.SearchStrategy[LabelSelector | None]:
    """Draw a selector of pods: none, one for all, or one for some."""
    expressions = st.sampled_from(
        [
            LabelSelectorRequirement("app", "In", _APPS),
            LabelSelectorRequirement("app", "NotIn", ("web",)),
            LabelSelectorRequirement("tier", "Exists"),
            LabelSelectorRequirement("tier", "DoesNotExist"),
        ]
    )
    return st.none() | st.builds(
        LabelSelector,
        st.sampled_from([{}, {"app": "web"}, {"app": "db"}]),
        st.lists(expressions, max_size=1).map(tuple),
    )


def pod_affinity_terms() -> st.SearchStrategy[PodAffinityTerm]:
    """Draw a term of pod affinity, over own, named or selected namespaces."""
    return st.builds(
        PodAffinityTerm,
        st.sampled_from(TOPOLOGY_KEYS),
        label_selectors(),
        st.sampled_from([(), ("other",)]),
        st.sampled_from([None, None, LabelSelector(), LabelSelector({"team": "other"})]),
    )


def spread_constraints() -> st.SearchStrategy[TopologySpreadConstraint]:
    """Draw a spread constraint, hard or soft."""
    return st.builds(
        TopologySpreadConstraint,
        st.integers(1, 2),
        st.sampled_from(TOPOLOGY_KEYS),
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        label_selectors(),
        st.sampled_from([None, 1, 3]),
        st.sampled_from([None, "Honor", "Ignore"]),
        st.sampled_from([None, "Honor", "Ignore"]),
        st.sampled_from([(), ("tier",)]),
    )
