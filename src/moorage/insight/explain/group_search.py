"""The search for changes that let a whole group of pods start, each tried by the group's own cycle."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.insight.explain.fixes.evictions import CURED_BY_LEAVING, may_leave
from moorage.insight.explain.fixes.nodes import MAX_SHAPES, clone_node, shapes
from moorage.insight.explain.groups import GroupView, list_pending_members, place_members, remove_gates, set_min_count
from moorage.insight.explain.obstacles import Obstacles, find_obstacles
from moorage.insight.explain.search import SearchResult, by_plugin, collect, together
from moorage.insight.explain.subject import Limits, Remedy, Subject
from moorage.insight.whatif.attempts import Attempt, GroupOutcome
from moorage.insight.whatif.edits import DeleteObject, Edit, ObjectId, PatchObject
from moorage.insight.whatif.session import Session
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.default_preemption.budgets import Budgets

ELSEWHERE: Final = Status.unresolvable("node(s) are in another domain than the other pods of the group").by("the group")
OWN_FIELDS: Final = ("hostname", "nodeName")
"""Fields in which otherwise equal members may differ."""
MAX_LEAVING: Final = 64


class GroupSubject(Subject):
    """A pending group; ``key`` is a member that does not fit next to the members that do.

    An edit of that member applies to all equal members.
    """

    def __init__(
        self, session: Session, key: str, limits: Limits, *, view: GroupView, base: tuple[Edit, ...] = ()
    ) -> None:
        self.view = view
        super().__init__(session, key, limits, base=base)

    @property
    def may_preempt(self) -> bool:
        """Always false: preemption is reported for the group as a whole."""
        return False

    @property
    def pods(self) -> int:
        """The number of pending members."""
        return max(1, self.view.members - self.view.scheduled)

    def _like(self, *, base: tuple[Edit, ...], preempts: bool = False) -> "Subject":
        return GroupSubject(self.session, self.key, self.limits, view=self.view, base=base)

    def _look(self) -> tuple[Attempt, Obstacles]:
        """Place as many members as possible, and find the obstacles of the next one."""
        session = self.session
        with session.branch():
            most = place_members(session, self.view.key)
            placed = most.placed if most is not None else {}
            waiting = [pod.key for pod in list_pending_members(session, self.view.key)]
            self.key = next((name for name in [self.key, *waiting] if name not in placed), self.key)
            if self.key in placed:
                return _attempt(self.key, placed[self.key]), Obstacles([{} for _ in range(len(self.nodes))])
            attempt = session.try_pod(self.key, preempts=False)
            obstacles = find_obstacles(session, session.pod(self.key), attempt)
            self._reject_other_domains(obstacles, placed)
            return attempt, obstacles

    def _reject_other_domains(self, obstacles: Obstacles, placed: dict[str, str]) -> None:
        key = self.view.topology_key
        members = self.session.groups().members(self.view.key)
        homes = [pod.node_name for pod in members.scheduled()] if members is not None else []
        infos = [self.nodes.find(name) for name in (*placed.values(), *homes)]
        domains = {info.labels.get(key) for info in infos if info is not None}
        if key and domains:
            for row, info in enumerate(self.nodes):
                if info.labels.get(key) not in domains:
                    obstacles.rows[row].setdefault(ELSEWHERE.plugin, ELSEWHERE)

    def alike(self) -> list[ObjectId]:
        """Name the members that wait and are just like this one, this one first."""
        own_spec = _comparable(self.session, self.id)
        names = (pod.key for pod in list_pending_members(self.session, self.view.key))
        pod_ids = (ObjectId("Pod", *name.split("/", 1)) for name in names if name != self.key)
        return [self.id, *(pod_id for pod_id in pod_ids if _comparable(self.session, pod_id) == own_spec)]

    def _for_all(self, edits: Sequence[Edit]) -> list[Edit]:
        group_edits: list[Edit] = []
        for edit in edits:
            if isinstance(edit, PatchObject) and edit.target == self.id:
                group_edits += [replace(edit, target=target) for target in self.alike()]
            else:
                group_edits.append(edit)
        return group_edits

    def _try(self, edits: Sequence[Edit]) -> Attempt | None:
        return super()._try(self._for_all(edits))

    def _placed(self) -> Attempt | None:
        outcome = self.session.place_group(self.view.key, preempts=False)
        return self._outcome(outcome) if self._group_fits(outcome) else None

    def _group_fits(self, outcome: GroupOutcome) -> bool:
        """Return whether the group can start; if it can already, whether this member can join."""
        return outcome.fits and (self.key in outcome.placed or not (self.view.is_met or self.view.needed is None))

    def _outcome(self, outcome: GroupOutcome) -> Attempt:
        return _attempt(self.key, outcome.placed.get(self.key) or next(iter(outcome.placed.values()), ""))

    def needs_all(self, *edits: Edit) -> bool:
        """Return true: the group did not fit with one obstacle fewer, and an edit of all pods counts as one change."""
        return True

    def offer(self, kind: str, text: str, *edits: Edit, cost: int = 0) -> Remedy | None:
        """Report a change if it helps; a change of one member applies to all similar ones."""
        attempt = self.trial(*edits)
        if attempt is None:
            return None
        group_edits = self._for_all(edits)
        description = f"{text}, in all {len(self.alike())} pods" if len(group_edits) > len(edits) else text
        return Remedy(kind, description, (*self.base, *group_edits), attempt, cost)


def _attempt(key: str, node: str) -> Attempt:
    return Attempt(Decision(pod=key, profile="", result=Result.SCHEDULED, node=node))


def _comparable(session: Session, target: ObjectId) -> dict[str, Any]:
    spec = session.objects.content(target).get("spec") or {}
    return {name: item for name, item in spec.items() if name not in OWN_FIELDS}


def search_group(session: Session, view: GroupView, limits: Limits) -> SearchResult:
    """Look for changes with which a group could start, or one more member could follow."""
    return collect(_search(session, view, limits), limits)


def _search(session: Session, view: GroupView, limits: Limits) -> Iterator[Remedy]:
    waiting = [pod.key for pod in list_pending_members(session, view.key)]
    if not waiting:
        return
    gates = tuple(remove_gates(session, waiting))
    subject = GroupSubject(session, view.blocked or waiting[0], limits, view=view, base=gates)
    if gates:
        count = f"{len(gates)} of its pods" if len(gates) < len(waiting) else "its pods"
        free = GroupSubject(session, subject.key, limits, view=view)
        if (offer := free.offer("gate", f"Remove the scheduling gates of {count}", *gates)) is not None:
            yield offer
            return
    any_found = False
    for offer in _single(subject):
        any_found = True
        yield replace(offer, kind="pair", text=f"Remove its scheduling gates. {offer.text}") if gates else offer
    if not any_found:
        yield from together(subject)


def _single(subject: GroupSubject) -> Iterator[Remedy]:
    for fix in (_lower_min_count, _drop_topology, by_plugin, _add_nodes, _delete_pods):
        try:
            yield from fix(subject)
        except InputError:
            continue  # the manifest does not contain the field to change


def _lower_min_count(subject: GroupSubject) -> Iterator[Remedy]:
    """Have the group start with fewer members: as many as there are places for."""
    min_count, name = subject.view.needed, subject.view.key.rpartition("/")[2]
    if min_count is None or min_count < 2 or subject.view.is_met:
        return

    def edits_for(count: int) -> list[Edit]:
        return [set_min_count(subject.session, subject.view.key, count)]

    largest = subject.largest(1, min_count, edits_for, subject.view.most)
    if largest is not None:
        text = (
            f"Lower minCount of the group {name} from {min_count} to {largest}, so that it starts with {largest} pods"
        )
        if offer := subject.offer("group", text, *edits_for(largest)):
            yield offer


def _drop_topology(subject: GroupSubject) -> Iterator[Remedy]:
    """Have the pods of the group be anywhere."""
    if subject.view.topology_key:
        namespace, _, name = subject.view.key.rpartition("/")
        edit = subject.draft_of("PodGroup", name, namespace).remove("spec", "schedulingConstraints").edit()
        span = f"span several {subject.view.topology_key} domains"
        text = f"Remove the topology constraint of the group {name}, so that it can {span}"
        if offer := subject.offer("topology", text, replace(edit, must_replace=True)):
            yield offer


def _add_nodes(subject: GroupSubject) -> Iterator[Remedy]:
    """Add the fewest copies of an existing node, of the smallest shape for which that number is enough."""
    most, best = len(list_pending_members(subject.session, subject.view.key)), ""

    def edits_for(fewer: int) -> list[Edit]:
        names = (f"{like}-new-{number}" for number in range(1, 1 - fewer))
        return [edit for name in names for edit in clone_node(subject, like, name)]

    for like in [info.name for info in shapes(subject)[:MAX_SHAPES]]:
        # The fewest are the largest of the negative numbers.
        negated_count = subject.largest(-most, 0, edits_for, -1) if most else None
        if negated_count is not None:
            most, best = -negated_count - 1, like
    if best:
        like, count = best, most + 1
        text = f"Add a node like {like}" if count == 1 else f"Add {count} nodes like {like}"
        if offer := subject.offer("add-node", text, *edits_for(-count), cost=count):
            yield offer


def _delete_pods(subject: GroupSubject) -> Iterator[Remedy]:
    """Delete the fewest other pods, the least important first; disruption budgets are respected."""
    budgets = Budgets(subject.session.scheduler.objects[PodDisruptionBudget])
    rows = subject.rows_where_only(*CURED_BY_LEAVING)
    candidates = [pod for row in rows for pod in subject.nodes[row].pods.values() if pod.group_key != subject.view.key]
    pods = may_leave(candidates, budgets)[:MAX_LEAVING]

    def edits_for(fewer: int) -> list[Edit]:
        return [DeleteObject(ObjectId("Pod", pod.namespace, pod.name)) for pod in pods[:-fewer]]

    negated_count = subject.largest(-len(pods), 0, edits_for, -1) if pods else None
    if negated_count is None:
        return
    victims = pods[:-negated_count]
    for pod in [*victims]:
        fewer = [victim for victim in victims if victim is not pod]
        if fewer and subject.trial(*(DeleteObject(ObjectId("Pod", victim.namespace, victim.name)) for victim in fewer)):
            victims = fewer
    edits = [DeleteObject(ObjectId("Pod", pod.namespace, pod.name)) for pod in victims]
    if offer := subject.offer(
        "delete-pod", f"Delete {' and '.join(pod.key for pod in victims)}", *edits, cost=len(victims)
    ):
        yield offer
