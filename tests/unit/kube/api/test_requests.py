from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.kube.api.container import Container, ContainerStatus, ResourceRequirements
from moorage.kube.api.meta import Condition
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.quantity import MAX_INT64, Quantity
from moorage.kube.api.requests import (
    countable,
    is_extended,
    is_scalar,
    scoring_requests,
    spec_requests,
)
from moorage.testing import make_pod

MI = 2**20
DEFAULT = {"cpu": 100, "memory": 200 * MI}


def container(name: str = "main", **requests: Quantity) -> Container:
    return Container(name, resources=ResourceRequirements(requests=requests))


def sidecar(name: str, **requests: Quantity) -> Container:
    return Container(name, resources=ResourceRequirements(requests=requests), restart_policy="Always")


def pod(*containers: Container, init: tuple[Container, ...] = (), **spec: Any) -> Pod:
    return make_pod(containers=containers, init_containers=init, **spec)


def level(**requests: Quantity) -> ResourceRequirements:
    return ResourceRequirements(requests=requests)


SPECS = {
    "nothing": (pod(container()), {}),
    "one container": (pod(container(cpu="500m", memory="1Ki")), {"cpu": 500, "memory": 1024}),
    "an explicit zero remains": (pod(container(cpu=0)), {"cpu": 0}),
    "containers add up": (pod(container("a", cpu=1), container("b", cpu=2, memory=1)), {"cpu": 3000, "memory": 1}),
    "sums are rounded once": (pod(*(container(str(i), cpu="100u") for i in range(3))), {"cpu": 1}),
    "an init container counts at its peak": (pod(container(cpu=1), init=(container("i", cpu=3),)), {"cpu": 3000}),
    "but not below the containers": (pod(container(cpu=4), init=(container("i", cpu=3),)), {"cpu": 4000}),
    "init containers run one after the other": (
        pod(container(cpu=1), init=(container("i", cpu=2), container("j", cpu=3))),
        {"cpu": 3000},
    ),
    "each resource has its own peak": (
        pod(container(cpu=1, memory=5), init=(container("i", cpu=2, memory=1),)),
        {"cpu": 2000, "memory": 5},
    ),
    "a sidecar runs together with the containers": (pod(container(cpu=1), init=(sidecar("s", cpu=2),)), {"cpu": 3000}),
    "and together with the init containers after it": (
        pod(container(cpu=1), init=(sidecar("s", cpu=2), container("i", cpu=4))),
        {"cpu": 6000},
    ),
    "but not with the init containers before it": (
        pod(container(cpu=1), init=(container("i", cpu=4), sidecar("s", cpu=2))),
        {"cpu": 4000},
    ),
    "sidecars add up": (
        pod(container(cpu=1), init=(sidecar("s", cpu=2), sidecar("t", cpu=3), container("i", cpu=1))),
        {"cpu": 6000},
    ),
    "overhead is added": (pod(container(cpu=1), overhead={"cpu": "50m", "memory": 7}), {"cpu": 1050, "memory": 7}),
    "pod-level requests take the place of the sum": (
        pod(container(cpu=3, memory=9), resources=level(cpu=2)),
        {"cpu": 2000, "memory": 9},
    ),
    "and get overhead on top": (pod(container(cpu=3), resources=level(cpu=2), overhead={"cpu": 1}), {"cpu": 3000}),
    "huge pages have a pod level": (
        pod(container(**{"hugepages-2Mi": 4}), resources=level(**{"hugepages-2Mi": 8})),
        {"hugepages-2Mi": 8},
    ),
    "other resources have none": (
        pod(container(**{"example.com/gpu": 1}), resources=level(cpu=1, **{"example.com/gpu": 8})),
        {"example.com/gpu": 1, "cpu": 1000},
    ),
    "pod-level limits alone change nothing": (
        pod(container(cpu=3), resources=ResourceRequirements(limits={"cpu": 1})),
        {"cpu": 3000},
    ),
    "unknown names are omitted": (pod(container(cpu=1, something=3)), {"cpu": 1000}),
    "a sum stops at the largest integer": (
        pod(container("a", memory="7Ei"), container("b", memory="7Ei")),
        {"memory": MAX_INT64},
    ),
}


@pytest.mark.parametrize(("subject", "want"), SPECS.values(), ids=SPECS)
def test_spec_requests(subject: Pod, want: dict[str, int]) -> None:
    assert spec_requests(subject) == want


SCORES = {
    "defaults for a container without requests": (pod(container()), DEFAULT),
    "defaults for missing requests": (pod(container(cpu=1)), DEFAULT | {"cpu": 1000}),
    "not for an explicit zero": (pod(container(cpu=0, memory=0)), {"cpu": 0, "memory": 0}),
    "for each container": (pod(container("a"), container("b", cpu=1)), {"cpu": 1100, "memory": 400 * MI}),
    "for init containers, too": (
        pod(container(cpu=0, memory=0), init=(container("i"),)),
        DEFAULT,
    ),
    "for sidecars, too": (pod(container(), init=(sidecar("s"),)), {"cpu": 200, "memory": 400 * MI}),
    "with overhead on top": (pod(container(), overhead={"cpu": "1m"}), DEFAULT | {"cpu": 101}),
    "without the pod level": (pod(container(), resources=level(cpu=8)), DEFAULT),
    "other resources remain": (pod(container(**{"example.com/gpu": 2})), DEFAULT | {"example.com/gpu": 2}),
}


@pytest.mark.parametrize(("subject", "want"), SCORES.values(), ids=SCORES)
def test_scoring_requests(subject: Pod, want: dict[str, int]) -> None:
    assert scoring_requests(subject, spec_requests(subject)) == want


AMOUNTS = {"cpu": ("1", "100u", 0), "memory": ("1Gi", "0.5"), "example.com/gpu": ("3",), "unknown": ("1",)}


@pytest.mark.parametrize("seed", range(50))
def test_scoring_requests_are_those_of_a_complete_sum(seed: int) -> None:
    """An empty request at pod level changes no amount, and all containers are summed for it."""
    random = Random(seed)

    def some() -> dict[str, Quantity]:
        return {name: random.choice(AMOUNTS[name]) for name in random.sample(sorted(AMOUNTS), random.randrange(4))}

    containers = [container(str(number), **some()) for number in range(random.randrange(1, 4))]
    init = [random.choice((container, sidecar))(f"i{number}", **some()) for number in range(random.randrange(3))]
    both = (pod(*containers, init=tuple(init), overhead=overhead) for overhead in (some(), {}))
    for subject in both:
        empty = replace(subject, spec=replace(subject.spec, resources=level()))
        assert scoring_requests(subject, spec_requests(subject)) == scoring_requests(empty, spec_requests(empty))


def status(
    *, allocated: Quantity | None = None, actual: Quantity | None = None, resize: str = "", name: str = "main"
) -> PodStatus:
    word = ContainerStatus(
        name,
        allocated_resources=None if allocated is None else {"cpu": allocated},
        resources=None if actual is None else level(cpu=actual),
    )
    pending = (Condition(type="PodResizePending", status="True", reason=resize),) if resize else ()
    return PodStatus(container_statuses=(word,), conditions=pending)


PLACED = {
    "without a word of the kubelet the spec counts": (pod(container(cpu=2)), {"cpu": 2000}),
    "a status without resources changes nothing": (pod(container(cpu=2), status=status()), {"cpu": 2000}),
    "what is allocated counts if it is more": (pod(container(cpu=2), status=status(allocated=3)), {"cpu": 3000}),
    "and the spec if that is more": (pod(container(cpu=2), status=status(allocated=1)), {"cpu": 2000}),
    "what is actuated counts, too": (pod(container(cpu=2), status=status(allocated=1, actual=4)), {"cpu": 4000}),
    "a deferred resize still counts the requests": (
        pod(container(cpu=5), status=status(allocated=1, actual=1, resize="Deferred")),
        {"cpu": 5000},
    ),
    "an infeasible one does not": (
        pod(container(cpu=5), status=status(allocated=1, actual=2, resize="Infeasible")),
        {"cpu": 2000},
    ),
    "infeasible and nothing known is nothing": (pod(container(cpu=5), status=status(resize="Infeasible")), {}),
    "the status of another container does not count": (
        pod(container(cpu=2), status=status(allocated=9, name="other")),
        {"cpu": 2000},
    ),
    "pod-level status takes the place of the containers'": (
        pod(
            container(cpu=2),
            status=PodStatus(
                container_statuses=(ContainerStatus("main", allocated_resources={"cpu": 9}),),
                allocated_resources={"cpu": 3},
                resources=level(cpu=1),
            ),
        ),
        {"cpu": 3000},
    ),
    "the pod level is the largest of requested, allocated and actuated": (
        pod(
            container(cpu=1),
            resources=level(cpu=2),
            status=PodStatus(allocated_resources={"cpu": 3}, resources=level(cpu=4)),
        ),
        {"cpu": 4000},
    ),
}


@pytest.mark.parametrize(("subject", "want"), PLACED.values(), ids=PLACED)
def test_placed_requests(subject: Pod, want: dict[str, int]) -> None:
    assert subject.requests_on_node == want


NONZERO = {
    "defaults per container": (pod(container("a"), container("b")), (200, 400 * MI)),
    "what is allocated counts": (pod(container(cpu=1), status=status(allocated=3)), (3000, 200 * MI)),
    "a pod level fills in once for the entire pod": (
        pod(container("a"), container("b"), resources=level(cpu=2)),
        (2000, 400 * MI),
    ),
    "and not where a container requests some": (
        pod(container("a", memory=5), container("b"), resources=level(cpu=2)),
        (2000, 5),
    ),
}


@pytest.mark.parametrize(("subject", "want"), NONZERO.values(), ids=NONZERO)
def test_placed_nonzero_requests(subject: Pod, want: tuple[int, int]) -> None:
    assert subject.nonzero_requests == want


NAMES = {
    "example.com/gpu": (True, True),
    "hugepages-2Mi": (False, True),
    "attachable-volumes-aws-ebs": (False, True),
    "kubernetes.io/thing": (False, True),
    "sub.kubernetes.io/thing": (False, True),
    "requests.example.com/gpu": (False, False),
    "example.com/": (False, False),
    "gpu": (False, False),
    "cpu": (False, False),
}


@pytest.mark.parametrize(("name", "want"), NAMES.items(), ids=NAMES)
def test_names(name: str, want: tuple[bool, bool]) -> None:
    assert (is_extended(name), is_scalar(name)) == want


def test_countable_rounds_each_amount_up() -> None:
    assert countable({"cpu": "1u", "memory": "1m", "pods": "110", "unknown": 1}) == {"cpu": 1, "memory": 1, "pods": 110}


def test_cached_requests_survive_binding() -> None:
    subject = pod(container(cpu=1))
    cached_requests = subject.requests
    assert subject.on_node("n").__dict__["requests"] is cached_requests
    assert subject.on_node("n").node_name == "n"
