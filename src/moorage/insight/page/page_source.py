"""The interface between the page and a cluster with nodes, pending pods, and a copy for what-if questions."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moorage.insight.page.api_types import (
    About,
    DecisionLine,
    NodeLayout,
    NodeLoad,
    PageState,
    TimeLines,
    WaitingPodLine,
)
from moorage.insight.page.pending_groups import (
    MAX_SHOWN,
    Suggestion,
    describe_group,
    group_lines,
    list_retry_events,
    pod_groups,
)
from moorage.kube.api.pod import Pod

if TYPE_CHECKING:
    from moorage.insight.whatif.questions import OutcomeDifference

MAX_STEPS: Final = 240
"""Maximum number of points of a chart."""


class PageSource(ABC):
    """A cluster to show. ``run`` selects a run, ``at`` a time. A live cluster has one run, and only now.

    The methods that are not abstract describe a cluster at one time, without a scheduler.
    """

    cpu_share: ClassVar[float] = 1.0
    """The share of its thread that the page may use."""

    @abstractmethod
    async def start(self) -> None:
        """Read the cluster. Raise InputError if that fails."""

    @abstractmethod
    async def stop(self) -> None:
        """Release all resources."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that grows when there is new data."""

    @abstractmethod
    def about(self) -> About:
        """Describe the source."""

    @abstractmethod
    def layout(self, run: int) -> NodeLayout:
        """Describe the nodes."""

    @abstractmethod
    def state(self, run: int, at: float) -> PageState:
        """Return the state at a time."""

    @abstractmethod
    def waiting(self, run: int, at: float) -> Sequence[WaitingPodLine]:
        """List the pending pods."""

    @abstractmethod
    def placed(self, run: int, at: float) -> Sequence[Pod]:
        """List the pods on nodes."""

    @abstractmethod
    def helps(self, run: int, at: float) -> Mapping[str, Suggestion]:
        """Return the computed suggestions by group."""

    def decisions(self, run: int, at: float, since: int) -> Sequence[DecisionLine]:
        """List the attempts from a number on; only the last ones if there are many."""
        return ()

    def attempts(self, run: int, at: float, pod: str) -> Sequence[DecisionLine]:
        """List the attempts of a pod."""
        return ()

    def lines(self, run: int, at: float) -> TimeLines:
        """Return the values of the charts."""
        return TimeLines(start=0.0, step=1.0, placed=[], failed=[], waiting=[], latency=[])

    def differences(self, at: float) -> "Sequence[OutcomeDifference]":
        """List the pods with different results in the first two runs. Return an empty result if there is one run."""
        return ()

    def answer_now(self, question: str, arguments: Mapping[str, Any]) -> Any | None:
        """Return the result of a question that needs no copy of the cluster, or ``None`` for all others."""
        return None

    @abstractmethod
    async def ask(self, question: str, arguments: Mapping[str, Any], run: int, at: float) -> Any:
        """Return the result of a question on a copy of the cluster. Raise InputError if that is impossible."""


def page_state(  # noqa: PLR0913 - keywords only: the parts of a state
    lines: Sequence[WaitingPodLine],
    helps: Mapping[str, Suggestion],
    *,
    events: Mapping[str, Sequence[str]],
    members: Mapping[str, int],
    version: int,
    layout: int,
    time: float,
    load: NodeLoad,
    placed: int,
    bound: int,
    queues: dict[str, int] | None = None,
    note: str = "",
) -> PageState:
    """Return a state with the largest groups of pending pods.

    ``events`` are the events of each plugin, ``members`` the number of placed members of each pod group.
    """
    groups = group_lines(lines)
    descriptions = [describe_group(group, helps) for group in groups[:MAX_SHOWN]]
    return PageState(
        version=version,
        layout=layout,
        time=time,
        nodes=len(load.pods),
        placed=placed,
        waiting=len(lines),
        bound=bound,
        queues=dict(Counter(line.place for line in lines)) if queues is None else queues,
        groups=descriptions,
        groups_left=len(groups) - len(descriptions),
        pods_left=len(lines) - sum(group.pods for group in descriptions),
        events=list_retry_events(lines, events),
        pod_groups=pod_groups(lines, members),
        load=load,
        note=note,
    )
