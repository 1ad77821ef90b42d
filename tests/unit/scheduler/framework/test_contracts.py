"""Methods with signatures or names of Go plugins are rejected at registration, with the line to write."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from moorage import (
    CycleState,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    PermitPlugin,
    Pod,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from moorage.common.errors import ConfigError
from moorage.scheduler.framework.contracts import EXTENSION_POINTS
from moorage.scheduler.framework.go_names import REMOVED, RENAMED
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry

if TYPE_CHECKING:
    from decimal import Decimal


class Scores(ScorePlugin):
    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


def of(base: type[Plugin], **methods: Callable[..., Any]) -> type[Plugin]:
    """Define a plugin class with these methods."""
    return type("Ported", (base,), methods)


def score_by_name(self: Any, cycle: Any, pod: Any, node_name: Any) -> int:
    return 0


def score_by_text(self: Any, cycle: Any, pod: Any, node: str) -> int:
    return 0


def filter_with_context(self: Any, ctx: Any, state: Any, node: Any) -> None: ...
def filter_with_all(self: Any, ctx: Any, state: Any, pod: Any, node: Any) -> None: ...
def filter_of_pods(self: Any, cycle: Any, pod: Any) -> None: ...
def filter_swapped(self: Any, pod: Pod, cycle: CycleState, node: NodeInfo) -> None: ...
def filter_as_bool(self: Any, cycle: Any, pod: Any, node: Any) -> bool:
    return True


def score_as_fraction(self: Any, cycle: Any, pod: Any, node: Any) -> float:
    return 0.5


def score_in_go(self: Any, cycle: Any, pod: Any, node: Any) -> tuple[int, Status | None]:
    return 0, None


def sort_pods(self: Any, pod: Pod) -> int:
    return pod.priority


def permit_node(self: Any, cycle: Any, pod: Any, node_info: Any) -> None: ...
def pre_filter_list(self: Any, cycle: Any, pod: Any, nodes: list[NodeInfo]) -> None: ...
async def post_filter_nodes(self: Any, cycle: Any, pod: Any, nodes: Any) -> Any: ...
def filter_nodes_one(self: Any, cycle: Any, pod: Any, node: Any) -> Any: ...


SIGNATURES: dict[str, tuple[type[Plugin], str, str]] = {
    "score with the name of the node": (
        of(ScorePlugin, score=score_by_name),
        "Ported.score has the parameter 'node_name', but is called with a NodeInfo as 'node'",
        "write `def score(self, cycle, pod, node)`",
    ),
    "score with a text": (
        of(ScorePlugin, score=score_by_text),
        "Ported.score declares `node: str`, but is called with a NodeInfo as 'node'",
        "write `def score(self, cycle, pod, node)`",
    ),
    "filter with a context": (
        of(FilterPlugin, filter=filter_with_context),
        "Ported.filter has the parameter 'ctx', but is called with a CycleState as 'cycle'",
        "write `def filter(self, cycle, pod, node)`",
    ),
    "too many parameters": (
        of(FilterPlugin, filter=filter_with_all),
        "but is called with (self, cycle, pod, node)",
        "write `def filter(self, cycle, pod, node)`",
    ),
    "too few parameters": (
        of(FilterPlugin, filter=filter_of_pods),
        "but is called with (self, cycle, pod, node)",
        "write `def filter(self, cycle, pod, node)`",
    ),
    "parameters in another order": (
        of(FilterPlugin, filter=filter_swapped),
        "Ported.filter declares `pod: Pod`, but is called with a CycleState as 'cycle'",
        "write `def filter(self, cycle, pod, node)`",
    ),
    "filter that returns a bool": (
        of(FilterPlugin, filter=filter_as_bool),
        "Ported.filter returns bool, but must return Status | None",
        "write `def filter(self, cycle, pod, node) -> Status | None`",
    ),
    "score that returns a fraction": (
        of(ScorePlugin, score=score_as_fraction),
        "Ported.score returns float, but must return int",
        "-> int`",
    ),
    "score that returns Go's two results": (
        of(ScorePlugin, score=score_in_go),
        "Ported.score returns tuple, but must return int",
        "-> int`",
    ),
    "sort key of a pod": (
        of(QueueSortPlugin, sort_key=sort_pods),
        "Ported.sort_key declares `pod: Pod`, but is called with a QueuedPod as 'queued'",
        "write `def sort_key(self, queued)`",
    ),
    "permit with a NodeInfo": (
        of(PermitPlugin, permit=permit_node),
        "Ported.permit has the parameter 'node_info', but is called with a str as 'node_name'",
        "write `def permit(self, cycle, pod, node_name)`",
    ),
    "pre-filter with a list of nodes": (
        of(PreFilterPlugin, pre_filter=pre_filter_list),
        "Ported.pre_filter declares `nodes: list`, but is called with a NodeTable as 'nodes'",
        "write `def pre_filter(self, cycle, pod, nodes)`",
    ),
    "filter_nodes with one node": (
        of(FilterPlugin, filter_nodes=filter_nodes_one),
        "Ported.filter_nodes has the parameter 'node', but is called with a NodeTable as 'nodes'",
        "write `def filter_nodes(self, cycle, pod, nodes)`",
    ),
    "PostFilter of v1alpha1": (
        of(PostFilterPlugin, post_filter=post_filter_nodes),
        "Ported.post_filter has the parameter 'nodes', but is called with a NodeStatuses as 'statuses'",
        "v1alpha1's PostFilter is `def pre_score(self, cycle, pod, nodes)` of PreScorePlugin",
    ),
    "a method as the name": (
        of(ScorePlugin, name=lambda self: "ported", score=Scores.score),
        "the name of Ported is <function",
        'write `name = "Ported"`, not a method',
    ),
}


@pytest.mark.parametrize(("plugin", "problem", "hint"), SIGNATURES.values(), ids=SIGNATURES)
def test_signature_of_go_is_rejected_with_the_line_to_write(plugin: type[Plugin], problem: str, hint: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        Registry([plugin])
    assert problem in rejected.value.problem
    assert hint in rejected.value.hint


NAMES = {
    "NormalizeScore": "write `def normalize_scores(self, cycle, pod, nodes, scores)`",
    "normalize_score": "write `def normalize_scores(self, cycle, pod, nodes, scores)`",
    "ScoreExtensions": "it is not needed: write `def normalize_scores(self, cycle, pod, nodes, scores)`",
    "pre_filter_extensions": "it is not needed: inherit from PreFilterExtensions and define `add_pod` and `remove_pod`",
    "AddPod": "write `def add_pod(self, cycle, pod, added, node)` and inherit from PreFilterExtensions",
    "PostFilter": "write `async def post_filter(self, cycle, pod, statuses)` and inherit from PostFilterPlugin; v1",
    "Less": "write `def less(self, left, right)` and inherit from QueueSortPlugin",
    "Unreserve": "write `def unreserve(self, cycle, pod, node_name)` and inherit from ReservePlugin",
    "EventsToRegister": "write `def events_to_register(self)`",
    "sign_pod": "write `def sign(self, pod)`",
    "PreBindPreFlight": "write `def pre_bind_pre_flight(self, cycle, pod, node_name)` and inherit from PreBindPlugin",
    "GeneratePlacements": "write `def generate_placements(self, cycle, group, nodes)` and inherit from PlacementGen",
    "PodGroupPostFilter": "write `async def post_filter_group(self, cycle, group)` and inherit from PodGroupPostFilter",
    "PlacementFeasible": "write `def placement_feasible(self, group, remaining, scheduled)` and inherit from Placement",
    "on_session_open": "write `async def start(self)`",
}


@pytest.mark.parametrize(("name", "hint"), NAMES.items(), ids=NAMES)
def test_method_name_of_go_is_rejected_with_its_python_name(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        Registry([type("Ported", (Scores,), {name: lambda self, *_: None})])
    assert rejected.value.problem == f"Ported.{name} is never called"
    assert rejected.value.hint.startswith(hint)


def test_replacements_of_previous_names_exist() -> None:
    methods = {name for base in Plugin.__subclasses__() for name in dir(base)} | set(dir(Plugin))
    assert set(RENAMED.values()) <= methods
    assert not RENAMED.keys() & REMOVED.keys()
    assert not {method.replace("_", "") for method in methods} & (RENAMED.keys() | REMOVED.keys())
    assert len(EXTENSION_POINTS) == 16


def test_misspelt_methods_and_missing_bases_are_warned_about(logged: list[Any]) -> None:
    class Forgets(Scores):
        def add_pod(self, cycle: Any, pod: Any, added: Any, node: Any) -> None: ...
        def pre_scores(self, cycle: Any, pod: Any, nodes: Any) -> None: ...
        def less(self, left: Any, right: Any) -> bool:
            return True

    Registry([Forgets])
    assert [(line["method"], line["hint"]) for line in logged] == [
        ("add_pod", "inherit from PreFilterExtensions as well"),
        ("pre_scores", "did you mean 'pre_score'?"),
        ("less", "inherit from QueueSortPlugin as well"),
    ]


class Helpful(ReservePlugin, ScorePlugin, FilterPlugin):
    """Uses other names, unknown annotations and helpers."""

    def filter(self, state: "CycleState", p: "Pod", node_info: "NodeInfo") -> "Decimal | None":  # type: ignore[override]
        return self.filter_node(node_info)

    def filter_node(self, node: NodeInfo) -> None: ...

    def score(self, _: object, pod: Any, _node_name: "Decimal") -> int:  # type: ignore[override]
        return self.predicate(pod)

    def predicate(self, pod: Pod) -> int:
        return 1

    def score_all(self, nodes: NodeTable) -> int:
        return len(nodes)

    def reserve(self, cycle: CycleState, pod: Pod, node: str) -> Status | None:
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node: Any) -> None: ...


def test_helpers_and_other_parameter_names_are_accepted(logged: list[Any]) -> None:
    assert list(Registry([Helpful])) == ["Helpful"]
    assert logged == []


def test_helper_with_a_go_name_may_be_used_anywhere_in_the_class_tree(logged: list[Any]) -> None:
    class Base:
        def predicate(self, pod: Pod) -> bool:
            return bool(pod.labels)

        def prioritize(self) -> bool:
            return True

    class Derived(Base, FilterPlugin):
        @property
        def is_ready(self) -> bool:
            return self.prioritize()

        def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None if self.predicate(pod) and self.is_ready else Status.unschedulable("no")

    assert list(Registry([Derived])) == ["Derived"]
