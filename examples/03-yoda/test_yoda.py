"""Yoda: its rules row by row, the original's numbers, both forms, and a cluster with cards."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from yoda import sniffer
from yoda.plugin import Yoda, YodaArgs
from yoda.scv import Scv

from moorage import Condition, CycleState, KubeObject, ObjectMeta, Pod, PodStatus
from moorage.testing import (
    FORMS,
    SCORE_FORMS,
    Cluster,
    FilterForm,
    Rig,
    ScoreForm,
    check_plugin,
    in_virtual_time,
    make_node,
    make_pod,
    run_filter,
    run_score,
)

DIRECTORY = Path(__file__).parent
TITAN = {"id": 0, "health": "Healthy", "model": "TITAN Xp", "bandwidth": 15760, "clock": 5705, "core": 1911,
         "power": 250, "totalMemory": 12194, "freeMemory": 12194}  # fmt: skip
TIME = "2026-01-31T12:00:00Z"


def card(number: int = 0, **facts: Any) -> dict[str, Any]:
    return {**TITAN, "id": number, **facts}


def scv(name: str, *cards: dict[str, Any], **status: Any) -> Scv:
    sums = {key + "Sum": sum(item[key] for item in cards) for key in ("totalMemory", "freeMemory")}
    report = {"cardList": list(cards), "cardNumber": len(cards), **sums, "updateTime": TIME, **status}
    return Scv(metadata=ObjectMeta(name=name, uid=f"scv/{name}"), status=report)


def gpu_pod(name: str = "gpu", *, node: str = "", cards: str = "", ready: str = "", **labels: str) -> Pod:
    """Make a pod that requests cards; ``cards`` are its assigned cards, ``ready`` is its start time."""
    conditions = (Condition(type="Ready", status="True", last_transition_time=ready),) if ready else ()
    pod = make_pod(name, node=node, labels={f"scv/{key}": value for key, value in labels.items()})
    status = PodStatus(phase="Running" if ready else "Pending", conditions=conditions)
    metadata = replace(pod.metadata, annotations={"scv/cards": cards} if cards else {})
    return replace(pod, metadata=metadata, status=status)


def yoda(rig: Rig, *, strict: bool = False) -> Yoda:
    return Yoda(args=YodaArgs(strict_compat=strict), handle=rig)


def message(plugin: Yoda, rig: Rig, pod: Pod, form: FilterForm) -> str | None:
    (status,) = run_filter(plugin, rig, pod, form)
    return None if status is None else status.message


HALF = {"freeMemory": 6000}
SICK = {"health": "Unhealthy"}
LATER, EARLIER = "2026-01-31T12:00:05Z", "2026-01-31T11:59:00Z"
FULL = "node(s) had too little free memory on their cards"
SLOW = "node(s) had too few cards with the requested clock"
SMALL = "node(s) had too few cards with the requested memory"
FEW_HEALTHY = "node(s) had too few healthy cards"
INVALID = "node(s) had an invalid Scv "
TAKEN = gpu_pod("a", node="n", cards="0", memory="8000")

ROWS: dict[str, tuple[list[KubeObject], Pod, str | None, bool]] = {
    # The cards on the node, the pod, the reason, and whether the original accepts the node.
    "a pod without labels needs one card": ([scv("n", card())], gpu_pod(), None, True),
    "a node without cards is rejected": ([scv("n")], gpu_pod(), FEW_HEALTHY, False),
    "a node without a report is rejected": ([], gpu_pod(), "node(s) had no Scv (does the sniffer run there?)", False),
    "too few cards": ([scv("n", card(), card(1))], gpu_pod(number="3"), FEW_HEALTHY, False),
    "an unhealthy card does not count": ([scv("n", card(), card(1, **SICK))], gpu_pod(number="2"), FEW_HEALTHY, True),
    "memory is per card": ([scv("n", card(**HALF), card(1))], gpu_pod(number="2", memory="8000"), FULL, False),
    "each card has enough memory": ([scv("n", card(**HALF), card(1))], gpu_pod(number="2", memory="6000"), None, True),
    "no card is large enough": ([scv("n", card())], gpu_pod(memory="20000"), SMALL, False),
    "a higher clock is accepted": ([scv("n", card())], gpu_pod(clock="5000"), None, False),
    "a lower clock is rejected": ([scv("n", card())], gpu_pod(clock="6000"), SLOW, False),
    "an equal clock is accepted": ([scv("n", card())], gpu_pod(clock="5705"), None, True),
    "memory and clock must be on the same card": (
        [scv("n", card(clock=877), card(1, **HALF))], gpu_pod(memory="8000", clock="5705"), FULL, True),
    "memory that was just assigned is not free": (
        [scv("n", card()), TAKEN], gpu_pod(memory="8000"), FULL, True),
    "the remaining memory is free": (
        [scv("n", card()), TAKEN], gpu_pod(memory="4194"), None, True),
    "another card is free": (
        [scv("n", card(), card(1)), TAKEN], gpu_pod(memory="8000"), None, True),
    "memory used after the report counts in addition to it": (
        [scv("n", card(**HALF)), gpu_pod("a", node="n", cards="0", memory="4000", ready=LATER)],
        gpu_pod(memory="3000"), FULL, True),
    "memory used before the report counts once": (
        [scv("n", card(**HALF)), gpu_pod("a", node="n", cards="0", memory="4000", ready=EARLIER)],
        gpu_pod(memory="3000"), None, True),
    "a pod that uses less memory than it requested still holds it": (
        [scv("n", card()), gpu_pod("a", node="n", cards="0", memory="8000", ready=EARLIER)],
        gpu_pod(memory="8000"), FULL, True),
    "a pod without cards fits on every node": ([], gpu_pod(number="0"), None, False),
    "an invalid number in a label is reported": (
        [scv("n", card())], gpu_pod(memory="8GB"),
        """the pod's label scv/memory is '8GB': write a whole number such as "8000" (MB per card)""", True),
    "a negative number is reported": (
        [scv("n", card())], gpu_pod(number="-1"),
        """the pod's label scv/number is '-1': write a whole number such as "2\"""", False),
    "an invalid priority is reported": (
        [scv("n", card())], gpu_pod(priority="high"),
        """the pod's label scv/priority is 'high': write a whole number such as "10\"""", True),
    "an unknown label is reported": (
        [scv("n", card())], gpu_pod(numbr="2"),
        "the pod's label scv/numbr is unknown: write one of scv/number, scv/memory, scv/clock, scv/priority", True),
    "a running pod with an invalid label still holds its memory": (
        [scv("n", card()), gpu_pod("a", node="n", cards="0", memory="8000", priority="high", ready=EARLIER)],
        gpu_pod(memory="8000"), FULL, True),
    "an invalid card list is reported": (
        [scv("n", cardList="many")], gpu_pod(), INVALID + "(Expected array, got str at cardList)", False),
    "an invalid number of a card is reported": (
        [scv("n", cardList=[{"id": 0, "clock": "fast"}])], gpu_pod(),
        INVALID + "(Expected int, got str at cardList[0].clock)", False),
    "a card with more free memory than it has is reported": (
        [scv("n", card(freeMemory=20000))], gpu_pod(),
        INVALID + "(card 0 has 20000 MB free of 12194)", False),
    "a duplicate card is reported": (
        [scv("n", card(), card())], gpu_pod(), INVALID + "(two cards have the id 0)", False),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("there", "pod", "want", "_"), ROWS.values(), ids=ROWS)
def test_filter(form: FilterForm, there: list[KubeObject], pod: Pod, want: str | None, _: bool) -> None:
    rig = Rig(make_node("n"), *there)
    assert message(yoda(rig), rig, pod, form) == want


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("there", "pod", "_", "fits"), ROWS.values(), ids=ROWS)
def test_strict_filter_is_the_originals(
    form: FilterForm, there: list[KubeObject], pod: Pod, _: object, fits: bool
) -> None:
    rig = Rig(make_node("n"), *there)
    assert (message(yoda(rig, strict=True), rig, pod, form) is None) == fits


def test_preemption_frees_the_memory_of_victims() -> None:
    victim = gpu_pod("victim", node="n", cards="0", memory="8000", ready=EARLIER)
    rig = Rig(make_node("n"), scv("n", card(freeMemory=4194)), victim)
    plugin, what_if = yoda(rig), rig.nodes[0].copy()
    assert plugin.filter(CycleState(), gpu_pod(memory="8000"), what_if) is not None
    what_if.remove_pod(victim)
    assert plugin.filter(CycleState(), gpu_pod(memory="8000"), what_if) is None
    what_if.add_pod(gpu_pod("nominated", memory="8000"))
    assert plugin.filter(CycleState(), gpu_pod(memory="8000"), what_if) is not None


def original_scores(scvs: list[Scv], pods: dict[str, list[Pod]], memory: int, clock: int) -> list[int]:
    """Compute the original's scores, card by card, for a pod with one card, memory and clock."""
    names = {"bandwidth": 1, "clock": 1, "core": 1, "freeMemory": 1, "power": 1, "totalMemory": 1}

    def passes(status: Any) -> bool:
        healthy = [item for item in status["cardList"] if item["health"] == "Healthy"]
        has_memory, has_clock = (
            any(item["freeMemory"] >= memory for item in healthy),
            any(item["clock"] == clock for item in healthy),
        )
        return status["cardNumber"] >= 1 and has_memory and has_clock

    most = dict(names)
    for scv_object in scvs:
        for entry in scv_object.status["cardList"] if passes(scv_object.status) else ():
            if entry["freeMemory"] >= memory and entry["clock"] >= clock:
                most = {name: max(most[name], entry[name]) for name in names}
    totals = []
    for scv_object in scvs:
        status, basic = scv_object.status, 0
        for entry in status["cardList"] if passes(status) else ():
            if entry["freeMemory"] >= memory and entry["clock"] >= clock:
                divisor = {**most, "clock": most["bandwidth"]}
                basic += sum((1 + (name == "freeMemory")) * (entry[name] * 100 // divisor[name]) for name in names)
        requested, total = sum(int(pod.labels["scv/memory"]) for pod in pods[scv_object.name]), status["totalMemorySum"]
        allocate = 0 if total < requested or not total else (total - requested) * 100 // total * 3
        totals.append(basic + allocate + (status["freeMemorySum"] * 100 // total * 2 if total else 0))
    low, high = min(totals), max(0, *totals)
    low -= low == high
    return [(total - low) * 100 // (high - low) for total in totals]


@st.composite
def some_cards(draw: st.DrawFn) -> list[dict[str, Any]]:
    facts = st.fixed_dictionaries(
        {"health": st.sampled_from(["Healthy", "Healthy", "Unhealthy"]), "clock": st.sampled_from([877, 5001, 5705]),
         "freeMemory": st.integers(0, 12194), "core": st.sampled_from([1530, 1911]),
         "power": st.sampled_from([70, 250]), "bandwidth": st.sampled_from([7880, 15760])}
    )  # fmt: skip
    return [card(index, **item) for index, item in enumerate(draw(st.lists(facts, max_size=4)))]


@pytest.mark.parametrize("form", SCORE_FORMS)
@settings(max_examples=30, deadline=None)
@given(
    cards=st.lists(some_cards(), min_size=1, max_size=4),
    memory=st.integers(0, 12194),
    used_memory=st.integers(0, 30000),
)
def test_strict_scores_match_the_original(
    form: ScoreForm, cards: list[list[dict[str, Any]]], memory: int, used_memory: int
) -> None:
    scvs = [scv(f"n{index}", *item) for index, item in enumerate(cards)]
    running = gpu_pod("running", node="n0", memory=str(used_memory), number="2")
    rig = Rig(*(make_node(item.name) for item in scvs), running, *scvs)
    pods: dict[str, list[Pod]] = {item.name: [] for item in scvs} | {"n0": [running]}
    pod = gpu_pod(memory=str(memory), clock="5001")
    assert run_score(yoda(rig, strict=True), rig, pod, form) == original_scores(scvs, pods, memory, 5001)


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_corrected_scores_divide_clocks_by_clocks(form: ScoreForm) -> None:
    rig = Rig(make_node("slow"), make_node("fast"), scv("slow", card(clock=5001)), scv("fast", card(bandwidth=14000)))
    # Clock and bandwidth: 87 + 100 and 100 + 88 points. The original gives the clocks 31 and 36.
    assert run_score(yoda(rig), rig, gpu_pod(), form) == [0, 100]
    assert run_score(yoda(rig, strict=True), rig, gpu_pod(), form) == [100, 0]


def test_queue_order_is_priority_then_time() -> None:
    class Queued:
        def __init__(self, pod: Pod, timestamp: float) -> None:
            self.pod, self.timestamp, self.priority, self.attempts = pod, timestamp, 0, 0
            self.initial_attempt_timestamp: float | None = None

    plugin = yoda(Rig())
    old, new = Queued(gpu_pod(priority="1"), 1.0), Queued(gpu_pod(priority="1"), 2.0)
    urgent, wrong = Queued(gpu_pod(priority="9"), 3.0), Queued(gpu_pod(priority="soon"), 0.0)
    assert sorted([new, wrong, old, urgent], key=plugin.sort_key) == [urgent, old, new, wrong]
    strict = yoda(Rig(), strict=True)
    assert not strict.less(old, new)
    assert strict.less(urgent, old)


@st.composite
def gpu_clusters(draw: st.DrawFn) -> tuple[KubeObject, ...]:
    names = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    scvs = [scv(name, *draw(some_cards())) for name in names if draw(st.booleans())]
    assigned_cards, times = st.sampled_from(["", "0", "1", "0,1", "7"]), st.sampled_from(["", EARLIER, LATER])
    pods = [
        gpu_pod(f"p{index}", node=draw(st.sampled_from(names)), cards=draw(assigned_cards), ready=draw(times),
                memory=draw(st.sampled_from(["2000", "9000", "x"])))
        for index in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    return (*map(make_node, names), *scvs, *pods)


def gpu_pods() -> st.SearchStrategy[Pod]:
    numbers, amounts = st.sampled_from(["0", "1", "2"]), st.sampled_from(["2000", "8000", "x", "-1"])
    labels = st.fixed_dictionaries({}, optional={"number": numbers, "memory": amounts, "clock": st.just("5001")})
    return labels.map(lambda values: gpu_pod("incoming", **values))


@pytest.mark.parametrize("strict", [False, True])
def test_both_forms_agree(strict: bool) -> None:
    check_plugin(
        lambda handle: Yoda(args=YodaArgs(strict_compat=strict), handle=handle),
        clusters=gpu_clusters(),
        pods=gpu_pods(),
        examples=50,
    )


@in_virtual_time
async def test_pods_get_cards_in_a_cluster() -> None:
    definitions = [DIRECTORY / "deploy" / "crd.yaml"]
    async with Cluster(
        nodes=4, shape="cpu=8", plugins=[Yoda], config=DIRECTORY / "scheduler.yaml", definitions=definitions
    ) as cluster:
        await cluster.apply(DIRECTORY / "workload.yaml")
        await cluster.wait_for(lambda: "4 node(s) had no Scv" in cluster.why_pending("notebook"))
        wrong = "0/4 nodes are available: the pod's label scv/memory is '8GB': write a whole number"
        await cluster.wait_for(lambda: wrong in cluster.why_pending("mistaken"))

        # The node's Scvs appear, and the pods that could not be placed without them are retried.
        for number in range(1, 5):
            cards = [card(index) for index in range(2 if number == 1 else 1)]
            await cluster.apply(
                {"apiVersion": "core.run-linux.com/v1", "kind": "Scv", **_plain(scv(f"node-{number}", *cards))}
            )
        await cluster.wait_for(lambda: len(cluster.running("app=training")) == 1)
        (training,) = cluster.running("app=training")
        assert (training.node_name, training.annotations["scv/cards"]) == ("node-1", "0,1")
        await cluster.wait_for(
            lambda: [pod.name for pod in cluster.running() if pod.name == "notebook"] == ["notebook"]
        )

        # Without a new report, the cards of the training pod are not assigned twice.
        (waiting,) = (pod for pod in cluster.pods("app=training") if not pod.node_name)
        await cluster.wait_for(lambda: f"1 {FULL}" in cluster.why_pending(waiting.name))

        await sniffer.publish(cluster.client, 1e9)
        await cluster.apply(
            {"apiVersion": "core.run-linux.com/v1", "kind": "Scv", **_plain(scv("node-2", card(), card(1)))}
        )
        await cluster.wait_for(lambda: len(cluster.running("app=training")) == 2)


def _plain(resource: Scv) -> dict[str, Any]:
    return {"metadata": {"name": resource.name}, "status": resource.status}


@in_virtual_time
async def test_sniffer_reports_used_memory() -> None:
    definitions = [DIRECTORY / "deploy" / "crd.yaml"]
    async with Cluster(
        nodes=3, plugins=[Yoda], config=DIRECTORY / "scheduler.yaml", definitions=definitions
    ) as cluster:
        assert await sniffer.publish(cluster.client, 1e9) == 3
        assert await sniffer.publish(cluster.client, 1e9) == 0
        pod = {"metadata": {"name": "a", "labels": {"scv/memory": "9000"}}, "spec": {"schedulerName": "yoda-scheduler",
               "containers": [{"name": "main", "image": "a:1"}]}}  # fmt: skip
        await cluster.apply({"apiVersion": "v1", "kind": "Pod", **pod})
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        assert await sniffer.publish(cluster.client, 2e9) == 1
        (placed,) = cluster.running()
        reported = next(item for item in await cluster.client.list(Scv) if item.name == placed.node_name)
        used_memory = [item["totalMemory"] - item["freeMemory"] for item in reported.status["cardList"]]
        assert sorted(used_memory)[-1] == 9000
        assert used_memory[int(placed.annotations["scv/cards"])] == 9000
