"""The search for changes that let an entire group of pods start, each tried by the group's own cycle."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.insight.explain.fixes.evictions import FIXED_BY_DELETING_PODS, deletions, list_deletable
from moorage.insight.explain.fixes.nodes import MAX_SHAPES, clone_node, shapes
from moorage.insight.explain.groups import GroupView, list_pending_members, place_members, remove_gates, set_min_count
from moorage.insight.explain.obstacles import Obstacles, find_obstacles
from moorage.insight.explain.search import SearchResult, by_plugin, collect, together
from moorage.insight.explain.subject import Limits, ProposedChange, Remedy, Subject, fix
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.edits import Edit, ObjectId, PatchObject
from moorage.insight.whatif.session import Session
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.framework.status import Status

ELSEWHERE: Final = Status.unresolvable("node(s) are in another domain than the other pods of the group").by("the group")
OWN_FIELDS: Final = ("hostname", "nodeName")
"""Fields in which otherwise equal members may differ."""
MAX_DELETIONS: Final = 64


class GroupSubject(Subject):
    """A pending group. ``key`` is a member that does not fit next to the members that do.

    An edit of that member applies to all equal members.
    """

    def __init__(
        self, session: Session, key: str, limits: Limits, *, view: GroupView, base: tuple[Edit, ...] = ()
    ) -> None:
        self.view = view
        super().__init__(session, key, limits, base=base)

    @property
    def may_preempt(self) -> bool:
        """Always false: preemption is reported for the group as a unit."""
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
            pending_keys = [pod.key for pod in list_pending_members(session, self.view.key)]
            self.key = next((name for name in [self.key, *pending_keys] if name not in placed), self.key)
            if self.key in placed:
                return _make_attempt(self.key, placed[self.key]), Obstacles([{} for _ in range(len(self.nodes))])
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
        """List the pending members with the same spec, this one first."""

        def comparable_spec(target: ObjectId) -> dict[str, Any]:
            spec = self.session.objects.content(target).get("spec") or {}
            return {name: item for name, item in spec.items() if name not in OWN_FIELDS}

        own_spec = comparable_spec(self.id)
        names = (pod.key for pod in list_pending_members(self.session, self.view.key))
        pod_ids = (ObjectId("Pod", *name.split("/", 1)) for name in names if name != self.key)
        return [self.id, *(pod_id for pod_id in pod_ids if comparable_spec(pod_id) == own_spec)]

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

    def _place(self) -> Attempt | None:
        """Place the group. Return ``None`` if it cannot start, or if it can already and this member cannot join."""
        placed = (outcome := self.session.place_group(self.view.key, preempts=False)).placed
        can_start = outcome.fits and (self.key in placed or not (self.view.is_met or self.view.needed is None))
        node = placed.get(self.key) or next(iter(placed.values()), "")
        return _make_attempt(self.key, node) if can_start else None

    def needs_all(self, *edits: Edit) -> bool:
        """Return true: the group did not fit with one obstacle fewer, and an edit of all pods is one change."""
        return True

    def offer(self, kind: str, text: str, *edits: Edit, cost: int = 0) -> Remedy | None:
        """Report a change if it helps. A change of a member applies to all similar ones."""
        attempt = self.trial(*edits)
        if attempt is None:
            return None
        group_edits = self._for_all(edits)
        description = f"{text}, in all {len(self.alike())} pods" if len(group_edits) > len(edits) else text
        return Remedy(kind, description, (*self.base, *group_edits), attempt, cost)


def _make_attempt(key: str, node: str) -> Attempt:
    return Attempt(Decision(pod=key, profile="", result=Result.SCHEDULED, node=node))


def search_group(session: Session, view: GroupView, limits: Limits) -> SearchResult:
    """Search for changes with which a group can start, or one more member can join."""
    return collect(_search(session, view, limits), limits)


def _search(session: Session, view: GroupView, limits: Limits) -> Iterator[Remedy]:
    pending_keys = [pod.key for pod in list_pending_members(session, view.key)]
    if not pending_keys:
        return
    gates = tuple(remove_gates(session, pending_keys))
    subject = GroupSubject(session, view.blocked or pending_keys[0], limits, view=view, base=gates)
    if gates:
        count = f"{len(gates)} of its pods" if len(gates) < len(pending_keys) else "its pods"
        free = GroupSubject(session, subject.key, limits, view=view)
        if (offer := free.offer("gate", f"Remove the scheduling gates of {count}", *gates)) is not None:
            yield offer
            return
    is_helped = False
    for search in (_lower_min_count, _drop_topology, by_plugin, _add_nodes, _delete_pods):
        try:
            for offer in search(subject):
                is_helped = True
                yield replace(offer, kind="pair", text=f"Remove its scheduling gates. {offer.text}") if gates else offer
        except InputError:
            continue  # the manifest does not contain the field to change
    if not is_helped:
        yield from together(subject)


@fix()
def _lower_min_count(subject: GroupSubject) -> Iterator[ProposedChange]:
    min_count, name = subject.view.needed, subject.view.key.rpartition("/")[2]
    if min_count is None or min_count < 2 or subject.view.is_met:
        return

    def make_edits(count: int) -> list[Edit]:
        return [set_min_count(subject.session, subject.view.key, count)]

    largest = subject.largest(1, min_count, make_edits, subject.view.most)
    if largest is not None:
        effect = f"so that it starts with {largest} pods"
        text = f"Lower minCount of the group {name} from {min_count} to {largest}, {effect}"
        yield ProposedChange("group", text, make_edits(largest))


@fix()
def _drop_topology(subject: GroupSubject) -> Iterator[ProposedChange]:
    if subject.view.topology_key:
        namespace, _, name = subject.view.key.rpartition("/")
        edit = subject.draft_object("PodGroup", name, namespace).remove("spec", "schedulingConstraints").edit()
        span = f"span several {subject.view.topology_key} domains"
        text = f"Remove the topology constraint of the group {name}, so that it can {span}"
        yield ProposedChange("topology", text, [replace(edit, must_replace=True)])


@fix()
def _add_nodes(subject: GroupSubject) -> Iterator[ProposedChange]:
    """Add the fewest copies of an existing node, of the smallest shape for which that number is sufficient."""
    most, best = len(list_pending_members(subject.session, subject.view.key)), ""

    def make_edits(count: int) -> list[Edit]:
        names = (f"{like}-new-{number}" for number in range(1, count + 1))
        return [edit for name in names for edit in clone_node(subject, like, name)]

    for like in [info.name for info in shapes(subject)[:MAX_SHAPES]]:
        smallest = subject.smallest(0, most, make_edits, 1) if most else None
        if smallest is not None:
            most, best = smallest - 1, like
    if best:
        like, count = best, most + 1
        text = f"Add a node like {like}" if count == 1 else f"Add {count} nodes like {like}"
        yield ProposedChange("add-node", text, make_edits(count), count)


@fix()
def _delete_pods(subject: GroupSubject) -> Iterator[ProposedChange]:
    """Delete the fewest other pods, the least important first. Disruption budgets are respected."""
    rows = subject.rows_where_only(*FIXED_BY_DELETING_PODS)
    candidates = [pod for row in rows for pod in subject.nodes[row].pods.values() if pod.group_key != subject.view.key]
    pods = list_deletable(subject, candidates)[:MAX_DELETIONS]
    count = subject.smallest(0, len(pods), lambda count: deletions(pods[:count]), 1) if pods else None
    if count is None:
        return
    victims = pods[:count]
    for pod in pods[:count]:
        fewer = [victim for victim in victims if victim is not pod]
        if fewer and subject.trial(*deletions(fewer)):
            victims = fewer
    text = f"Delete {' and '.join(pod.key for pod in victims)}"
    yield ProposedChange("delete-pod", text, deletions(victims), len(victims))
