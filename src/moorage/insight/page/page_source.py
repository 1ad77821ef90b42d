"""The interface between the page and a cluster with nodes, pending pods, and a copy for what-if questions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from moorage.insight.page.api_types import (
    About,
    DecisionLine,
    GroupLine,
    NodeLayout,
    NodeLoad,
    PageState,
    RetryEvent,
    RunDifference,
    TimeLines,
    WaitingPodLine,
)
from moorage.insight.page.pending_groups import MAX_SHOWN, Suggestion, described, grouped

MAX_STEPS: Final = 240
"""Maximum number of points of a chart."""


class PageSource(Protocol):
    """A cluster to show. ``run`` selects a run, ``at`` a time; a live cluster has one run, and only now."""

    @property
    def version(self) -> int:
        """A number that grows when there is something new to see."""
        ...

    def about(self) -> About:
        """Describe the source."""
        ...

    def layout(self, run: int) -> NodeLayout:
        """Describe the nodes."""
        ...

    def state(self, run: int, at: float) -> PageState:
        """Describe a moment."""
        ...

    def waiting(self, run: int, at: float) -> Sequence[WaitingPodLine]:
        """List the pods that wait."""
        ...

    def helps(self, run: int, at: float) -> Mapping[str, Suggestion]:
        """Return the computed suggestions by group."""
        ...

    def decisions(self, run: int, at: float, since: int) -> Sequence[DecisionLine]:
        """List the attempts after a number, the last ones if there are many."""
        ...

    def attempts(self, run: int, at: float, pod: str) -> Sequence[DecisionLine]:
        """List the attempts of one pod."""
        ...

    def lines(self, run: int, at: float) -> TimeLines:
        """Return numbers over time."""
        ...

    def differences(self, at: float) -> Sequence[RunDifference]:
        """List the pods with different results in the first two runs; empty if there is one run."""
        ...

    async def ask(self, question: str, arguments: Mapping[str, Any], run: int, at: float) -> Any:
        """Return the result of a question on a copy of the cluster; raise InputError if that is impossible."""
        ...


def page_state(  # noqa: PLR0913 - keywords only: what a state is made of
    lines: Sequence[WaitingPodLine],
    helps: Mapping[str, Suggestion],
    *,
    version: int,
    layout: int,
    time: float,
    load: NodeLoad,
    placed: int,
    bound: int,
    queues: dict[str, int],
    events: list[RetryEvent],
    groups: list[GroupLine],
    note: str = "",
) -> PageState:
    """Put a state together; of many groups the largest are shown."""
    groups_found = grouped(lines)
    group_lines = [described(members, helps) for members in groups_found[:MAX_SHOWN]]
    return PageState(
        version=version,
        layout=layout,
        time=time,
        nodes=len(load.pods),
        placed=placed,
        waiting=len(lines),
        bound=bound,
        queues=queues,
        groups=group_lines,
        groups_left=len(groups_found) - len(group_lines),
        pods_left=len(lines) - sum(group.pods for group in group_lines),
        events=events,
        pod_groups=groups,
        load=load,
        note=note,
    )
