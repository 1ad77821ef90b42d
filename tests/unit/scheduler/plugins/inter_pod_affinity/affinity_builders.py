"""Pods with affinity in one line, and a small cluster."""

from collections.abc import Iterable

from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.testing import make_node, make_pod

ANY = LabelSelector()


def to(app: str = "web", key: str = "zone", **fields: object) -> PodAffinityTerm:
    """Mean the pods of an app."""
    stored = {"label_selector": LabelSelector(match_labels={"app": app}), **fields}
    return PodAffinityTerm(topology_key=key, **stored)  # type: ignore[arg-type]


def affinity(
    near: Iterable[PodAffinityTerm] = (),
    away: Iterable[PodAffinityTerm] = (),
    likes: Iterable[tuple[int, PodAffinityTerm]] = (),
    dislikes: Iterable[tuple[int, PodAffinityTerm]] = (),
) -> Affinity:
    def weighted(terms: Iterable[tuple[int, PodAffinityTerm]]) -> tuple[WeightedPodAffinityTerm, ...]:
        return tuple(WeightedPodAffinityTerm(weight, term) for weight, term in terms)

    return Affinity(
        pod_affinity=PodAffinity(tuple(near), weighted(likes)),
        pod_anti_affinity=PodAntiAffinity(tuple(away), weighted(dislikes)),
    )


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def pod(app: str = "web", node: str = "", *, name: str = "", **fields: object) -> Pod:
    """Make a pod of an app; the rest are what :func:`affinity` takes, and fields of the pod."""
    wishes = {key: fields.pop(key) for key in ("near", "away", "likes", "dislikes") if key in fields}
    return make_pod(
        name or app,
        node=node,
        labels={"app": app},
        affinity=affinity(**wishes) if wishes else None,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


# Two zones of two nodes each, and a node in none.
CLUSTER = (
    make_node("a1", labels={"zone": "a", "rack": "1"}),
    make_node("a2", labels={"zone": "a", "rack": "2"}),
    make_node("b1", labels={"zone": "b", "rack": "1"}),
    make_node("b2", labels={"zone": "b"}),
    make_node("bare"),
)
