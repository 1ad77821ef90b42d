"""The subject of a search: a pod, its obstacles, and trials of changes."""

import copy
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Final, Self

from msgspec import Struct

from moorage.common.errors import ApiError, InputError
from moorage.insight.explain.obstacles import Obstacles, find_obstacles
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.edits import (
    DEFAULT_NAMESPACE,
    Edit,
    EditConfig,
    ObjectId,
    Operation,
    PatchObject,
    append,
    put,
    remove,
)
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.patches import json_patch
from moorage.scheduler.framework.nodeinfo import NodeInfo, ports_conflict
from moorage.scheduler.framework.nodetable import NodeTable

NEVER: Final = "Never"
DEFAULT_SECONDS: Final = 10.0
"""Default time limit of a search, in seconds."""
MAX_TRIALS: Final = 2_000
"""So much is tried at most, however fast the machine is. Usual pods take a few dozen trials."""


class LimitReached(Exception):
    """The search has taken as long, or tried as much, as it may."""


class Remedy(Struct, frozen=True):
    """A change that was found to help, with what came of it."""

    kind: str
    text: str
    edits: tuple[Edit, ...]
    attempt: Attempt
    cost: int = 0
    """Among changes of one kind: which is the smaller one."""
    parts: tuple[str, ...] = ()
    """The kinds of the changes that it is put together from, if it takes several."""


class Draft:
    """Operations on one object, each made for the object as the ones before it have left it."""

    def __init__(self, target: ObjectId, content: dict[str, Any], *, must_replace: bool = False) -> None:
        self._target = target
        self.content = copy.deepcopy(content)
        self._must_replace = must_replace
        self._api_version = str(content.get("apiVersion", ""))
        self.operations: list[Operation] = []

    def do(self, *operations: Operation) -> Self:
        """Add operations."""
        try:
            self.content = json_patch(self.content, list(operations))
        except ApiError as error:
            raise InputError(f"{self._target.kind} {self._target.key}", str(error)) from error
        self.operations += operations
        return self

    def put(self, path: Sequence[str | int], value: Any) -> Self:
        """Write a value and create missing parents."""
        return self.do(put(self.content, path, value))

    def append(self, path: Sequence[str | int], items: Sequence[Any]) -> Self:
        """Add items to a list, making it if it is missing."""
        for item in items:
            self.do(*append(self.content, path, [item]))
        return self

    def remove(self, *path: str | int) -> Self:
        """Take something out."""
        return self.do(remove(*path))

    def edit(self) -> PatchObject:
        """Return the edit."""
        return PatchObject(self._target, tuple(self.operations), self._must_replace, self._api_version)


class Limits(Struct):
    """How long a search may take, how much it may try, and how much it has tried."""

    deadline: float
    max_trials: int = MAX_TRIALS
    trials: int = 0

    def spend(self) -> None:
        """Count a trial; LimitReached if it is one too many, or there is no time for it."""
        if self.trials >= self.max_trials:
            raise LimitReached(f"the limit of {self.max_trials} trials was reached")
        if monotonic() > self.deadline:
            raise LimitReached("the time limit was reached (raise it with --timeout)")
        self.trials += 1


class Subject:
    """A pending pod in a session; ``base`` edits are applied before every trial.

    ``only_node``: the pod must fit there. ``preempts``: a nomination is enough. ``spared`` pods stay.
    """

    def __init__(
        self,
        session: Session,
        key: str,
        limits: Limits,
        *,
        only_node: str = "",
        base: tuple[Edit, ...] = (),
        preempts: bool = False,
        spared: frozenset[str] = frozenset(),
    ) -> None:
        self.session = session
        self.key = key
        self.limits = limits
        self.only_node = only_node
        self.base = base
        self.preempts = preempts
        self.spared = spared
        with session.branch():
            session.apply(*base)
            self.attempt, self.obstacles = self._look()
            self.pod: Pod = session.pod(self.key)
            self.content = session.objects.content(self.id)
        self._tried: dict[tuple[str, ...], Attempt | None] = {}
        self._aim: tuple[tuple[str, ...], int] | None = None
        self._may_preempt: bool | None = None
        self._is_nominated: bool | None = None

    def _look(self) -> tuple[Attempt, Obstacles]:
        """Find the obstacles in the current state."""
        attempt = self.session.try_pod(self.key, preempts=False)
        return attempt, find_obstacles(self.session, self.session.pod(self.key), attempt)

    @property
    def may_preempt(self) -> bool:
        """Whether a nomination would be new: the pod preempts no pods now, and there are candidates."""
        if self._may_preempt is None:
            self._may_preempt = self._find_out_whether_to_preempt()
        return self._may_preempt

    def _find_out_whether_to_preempt(self) -> bool:
        if self.preempts or self.pod.spec.preemption_policy == NEVER:
            return False
        lowest = min((pod.priority for info in self.nodes for pod in info.pods.values()), default=self.pod.priority)
        return lowest < self.pod.priority and not self.is_nominated

    @property
    def is_nominated(self) -> bool:
        """Whether the pod preempts other pods without a change."""
        if self._is_nominated is None:
            with self.session.branch():
                self.session.apply(*self.base)
                self._is_nominated = bool(self.session.try_pod(self.key).nominated_node)
        return self._is_nominated

    @property
    def may_raise_priority(self) -> bool:
        """Whether a higher priority could be of use."""
        return not self.preempts and not self.is_nominated

    @property
    def pods(self) -> int:
        """The number of pods that have to fit together."""
        return 1

    @property
    def id(self) -> ObjectId:
        """The pod as an object."""
        namespace, _, name = self.key.rpartition("/")
        return ObjectId("Pod", namespace or DEFAULT_NAMESPACE, name)

    @property
    def nodes(self) -> NodeTable:
        """The nodes of the cluster."""
        return self.session.scheduler.cache.nodes

    def with_base(self, *edits: Edit) -> "Subject":
        """Search further, after some edits."""
        return self._like(base=(*self.base, *edits), preempts=self.preempts)

    def preempting(self) -> "Subject":
        """Search for changes after which the pod could at least preempt."""
        return self._like(base=self.base, preempts=True)

    def aiming(self, plugins: tuple[str, ...], row: int) -> "Subject":
        """Search for changes after which some plugins accept a node, whether or not others do."""
        subject = self._like(base=self.base)
        subject._aim = (plugins, row)
        return subject

    def _like(self, *, base: tuple[Edit, ...], preempts: bool = False) -> "Subject":
        return Subject(
            self.session,
            self.key,
            self.limits,
            only_node=self.only_node,
            base=base,
            preempts=preempts,
            spared=self.spared,
        )

    def rows_where_only(self, *plugins: str) -> list[int]:
        """Find the nodes that only these plugins reject."""
        rows = self.obstacles.where_only(plugins, but_for_preemption=self.preempts)
        if self.only_node:
            info = self.nodes.find(self.only_node)
            return [row for row in rows if info is not None and row == info.row]
        return rows

    def infos(self, rows: Iterable[int]) -> list[NodeInfo]:
        """Return the nodes of some rows."""
        return [self.nodes[row] for row in rows]

    def draft(self) -> Draft:
        """Begin a change of the pod which Kubernetes takes only from a new pod."""
        return Draft(self.id, self.content, must_replace=True)

    def live_draft(self) -> Draft:
        """Start a change of the pod that the API server permits on the existing object."""
        return Draft(self.id, self.content)

    def draft_of(self, kind: str, name: str, namespace: str = "") -> Draft:
        """Begin a change of another object."""
        target = ObjectId(kind, namespace, name)
        return Draft(target, self.session.objects.content(target))

    def trial(self, *edits: Edit) -> Attempt | None:
        """Make some edits and try the pod: what came of it if it fits then, else ``None``."""
        cache_key = tuple(repr(edit) for edit in edits)
        if cache_key not in self._tried:
            self.limits.spend()
            self._tried[cache_key] = self._try(edits)
        return self._tried[cache_key]

    def _try(self, edits: Sequence[Edit]) -> Attempt | None:
        session = self.session
        with session.branch():
            try:
                session.apply(*self.base, *edits)
            except InputError:
                return None
            if self._aim is not None:
                plugins, row = self._aim
                attempt, obstacles = self._look()
                return None if any(plugin in obstacles.of(row) for plugin in plugins) else attempt
            return self._placed()

    def _placed(self) -> Attempt | None:
        """Place the pod; ``None`` if it does not fit."""
        attempt = self.session.place(self.key, preempts=self.preempts)
        return attempt if self._is_enough(attempt) else None

    def _is_enough(self, attempt: Attempt) -> bool:
        if attempt.node and self._shares_a_port(attempt.node):
            return False
        if not attempt.node and not self.spared.isdisjoint(attempt.victims):
            return False
        if not attempt.node and not attempt.victims:
            return False  # the victims are terminating already: the pod waits for them, not for the change
        if not self.only_node:
            return bool(attempt.node or (self.preempts and attempt.nominated_node))
        info = self.nodes.find(self.only_node)
        if info is not None and attempt.node:
            return attempt.fits_on(info.row)
        return self.preempts and attempt.nominated_node == self.only_node

    def _shares_a_port(self, node: str) -> bool:
        """Return whether a pod on a node uses a port of this pod, regardless of the row's ports.

        A row drops a port when one of the pods that share it is removed, as upstream does.
        """
        own_pod = self.session.pod(self.key)
        info = self.nodes.find(node)
        if not own_pod.host_ports or info is None:
            return False
        host_ports = [port for pod in info.pods.values() if pod.uid != own_pod.uid for port in pod.host_ports]
        return ports_conflict(own_pod.host_ports, host_ports)

    def largest(self, low: int, high: int, edits_for: Callable[[int], Sequence[Edit]], guess: int) -> int | None:
        """Find the largest amount with which the pod fits, between a low one and one with which it does not.

        ``guess`` is where it should be; two trials are enough if it is right.
        """
        if low < guess < high and self.trial(*edits_for(guess)):
            if guess + 1 >= high or not self.trial(*edits_for(guess + 1)):
                return guess
            low = guess + 1
        else:
            high = guess if low < guess < high else high
            if not self.trial(*edits_for(low)):
                return None
            low, high = self._gallop(low, high, edits_for)
        while high - low > 1:
            middle = (low + high) // 2
            if self.trial(*edits_for(middle)):
                low = middle
            else:
                high = middle
        return low

    def _gallop(self, low: int, high: int, edits_for: Callable[[int], Sequence[Edit]]) -> tuple[int, int]:
        """Narrow a wide range from above in growing steps: the result is often close to the current value."""
        step = 1
        while (closer := high - step) > low and step < high - low:
            if self.trial(*edits_for(closer)):
                return closer, high
            high, step = closer, step * 4
        return low, high

    def fewest(self, items: Sequence[Any], edits_for: Callable[[Sequence[Any]], Sequence[Edit]]) -> list[Any] | None:
        """Find items none of which can be left out: one alone if one is enough; ``None`` if all do not help."""
        if not items or not self.trial(*edits_for(items)):
            return None
        for item in items:
            if self.trial(*edits_for([item])):
                return [item]
        remaining = list(items)
        for item in items:
            fewer = [candidate for candidate in remaining if candidate is not item]
            if fewer and self.trial(*edits_for(fewer)):
                remaining = fewer
        return remaining

    def needs_all(self, *edits: Edit) -> bool:
        """Return whether edits help together, and each of them is necessary; a configuration is not tried again."""
        if any(isinstance(edit, EditConfig) for edit in edits):
            return True
        subsets = [tuple(candidate for candidate in edits if candidate is not edit) for edit in edits]
        return all(self.trial(*fewer) is None for fewer in subsets) and self.trial(*edits) is not None

    def offer(self, kind: str, text: str, *edits: Edit, cost: int = 0) -> Remedy | None:
        """Make a change known if it helps."""
        attempt = self.trial(*edits)
        return None if attempt is None else Remedy(kind, text, (*self.base, *edits), attempt, cost)
