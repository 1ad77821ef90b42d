"""Parts of the cluster that are just alike: what was found for a group in one of them holds for the others.

Racks are often filled the same way, or not at all. If the rows of two placements stand in the same order with the same
verdicts, scores and resources, and nobody who has a say looks at more than that, both have the same places to offer.
"""

from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from moorage.api.pod import Pod
from moorage.engine.answers.standing import StandingAnswer
from moorage.engine.cycle.profile_cycle import ProfileCycle
from moorage.engine.extension_points import idle
from moorage.engine.group_results import GroupTrial, PodTrial
from moorage.engine.services import Services
from moorage.framework.cycle import CycleState
from moorage.framework.groups import GroupTree, Placement
from moorage.framework.nodetable import RowArray
from moorage.framework.plugin import DependsOn


class Known(Struct):
    """What was found in a placement, and the rows that it has."""

    trial: GroupTrial
    place_of: dict[str, int]


class Likeness:
    """Remembers what was found for one group, by what the placements look like."""

    def __init__(self, services: Services, cycle: ProfileCycle, tree: GroupTree) -> None:
        self._cache = services.cache
        self._cycle = cycle
        self._pods = () if tree.is_composite else tree.members
        self._known: dict[bytes, Known] = {}
        self._answer: StandingAnswer | None = None
        self._is_possible = bool(self._pods) and not services.extenders and cycle.filtering.percentage is None
        self._is_possible &= not services.nominator.nodes_with_nominations()

    def known(self, placement: Placement) -> GroupTrial | None:
        """Return what would be found in a placement, if one just like it was tried."""
        if not self._is_possible or self._answer is None:
            return None
        rows = self._rows(placement)
        known = self._known.get(self._key(rows) or b"")
        if known is None:
            return None
        names = [self._cache.nodes[int(row)].name for row in rows]
        pods = {uid: _moved(trial, known.place_of, names) for uid, trial in known.trial.pods.items()}
        return GroupTrial(known.trial.tree, known.trial.status, pods, is_borrowed=True)

    def learn(self, placement: Placement, trial: GroupTrial) -> None:
        """Remember what was found in a placement; everything is as it was before."""
        # Where nobody was tried there is nothing to remember, nor an answer to know the placement by.
        if not self._is_possible or trial.is_borrowed or not trial.pods:
            return
        if self._answer is None and not self._prepare(trial):
            self._is_possible = False
            return
        rows = self._rows(placement)
        if key := self._key(rows):
            place_of = {self._cache.nodes[int(row)].name: place for place, row in enumerate(rows)}
            self._known[key] = Known(trial, place_of)
        else:
            self._is_possible = False

    def _prepare(self, trial: GroupTrial) -> bool:
        """Find the answer that all pods of the group share; return whether nothing else had a say."""
        answers = self._cycle.filtering.answers
        answer = answers.find(self._pods[0])
        self._answer = answer
        return all(not pod.status.nominated_node_name and answers.find(pod) is answer for pod in self._pods) and all(
            self._is_plain(tried.state, answer) for tried in trial.pods.values() if tried.state is not None
        )

    def _is_plain(self, state: CycleState, answer: StandingAnswer) -> bool:
        profile, layout = self._cycle.profile, answer.layout
        return (
            all(fresh.plugin.name in state.skipped_filters for fresh in layout.fresh_filters)
            and all(plugin.name in state.skipped_scores for plugin in layout.fresh_scores)
            and profile.reserving <= idle(profile, state)
        )

    def _rows(self, placement: Placement) -> RowArray:
        rows = placement.nodes.rows
        return rows[self._cache.places[rows].argsort()]

    def _key(self, rows: RowArray) -> bytes | None:
        """Return all that counts of some rows; ``None`` if somebody looks beyond nodes and what pods take of them.

        Rows of which all that is the same stay alike when pods of one shape come to them.
        """
        answer = self._answer
        assert answer is not None
        _bring_up_to_date(answer, self._pods[0], self._cycle)
        said: list[NDArray[Any]] = [answer.status_ids.take(rows)]
        for part in answer.parts_in_force():
            if part.plugin.depends_on > DependsOn.REQUESTS:
                return None
            if len(part.raw):
                said.append(part.raw.take(rows))
        return b"".join(column.tobytes() for column in said) + self._cache.columns.contents(rows)


def _bring_up_to_date(answer: StandingAnswer, pod: Pod, cycle: ProfileCycle) -> None:
    answer.filter(pod, cycle.cache.nodes)
    answer.score(pod, cycle.cache.nodes)


def _moved(trial: PodTrial, place_of: dict[str, int], names: list[str]) -> PodTrial:
    """Return the same for the node at the same place of another placement."""
    name = names[place_of[trial.node_name]] if trial.fits else ""
    return PodTrial(trial.queued, name, trial.state, cycle=trial.cycle, diagnosis=trial.diagnosis, status=trial.status)
