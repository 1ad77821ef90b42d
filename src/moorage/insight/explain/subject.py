"""The subject of a search: a pod, its obstacles, and trials of changes."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from itertools import islice
from time import monotonic
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

from msgspec import Struct

from moorage.common.errors import ApiError, InputError
from moorage.insight.explain.obstacles import Obstacles, find_obstacles
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.edits import (
    DEFAULT_NAMESPACE,
    CreateObject,
    Edit,
    EditConfig,
    ObjectId,
    Operation,
    PatchObject,
    append,
    put,
    remove,
    remove_items,
)
from moorage.insight.whatif.session import Session
from moorage.kube.api.affinity import Taint
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import label_matcher
from moorage.kube.patches import json_patch
from moorage.scheduler.framework.nodeinfo import NodeInfo, ports_conflict
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.plugins.default_preemption.budgets import Budgets

NEVER: Final = "Never"
CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
DEFAULT_SECONDS: Final = 10.0
"""Default time limit of a search, in seconds."""
MAX_TRIALS: Final = 2_000
"""Limit of trials, however fast the machine is. Usual pods take a few dozen trials."""


RELUCTANT: Final = 100
"""Changes with at least this cost follow the ordinary ones: an operator prefers those."""
LAST_RESORT: Final = 200
"""Changes with at least this cost are last."""


class LimitReached(Exception):
    """The search has reached its limit of time or trials."""


class ProposedChange(NamedTuple):
    """A change that may help."""

    kind: str
    text: str
    edits: "Sequence[Edit]"
    cost: int = 0


class Remedy(Struct, frozen=True):
    """A change that helps, and the attempt with it."""

    kind: str
    text: str
    edits: tuple[Edit, ...]
    attempt: Attempt
    cost: int = 0
    """Orders changes of the same kind, the smallest first."""
    parts: tuple[str, ...] = ()
    """The kinds of the combined changes, if there are several."""


class Draft:
    """Operations on one object. Each is based on the result of the previous ones."""

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
        """Add items to a list. Create the list if it is missing."""
        for item in items:
            self.do(append(self.content, path, item))
        return self

    def remove(self, *path: str | int) -> Self:
        """Remove a field or an item."""
        return self.do(remove(*path))

    def edit(self) -> PatchObject:
        """Return the edit."""
        return PatchObject(self._target, tuple(self.operations), self._must_replace, self._api_version)


def drop_from_containers(draft: Draft, path: tuple[str, ...], name: Any) -> None:
    """Remove the references of all containers to a volume or a claim: ``path`` is a list of items with names."""
    for kind in CONTAINERS:
        for number, container in enumerate(draft.content.get("spec", {}).get(kind) or ()):
            mounts: Any = container
            for step in path:
                mounts = (mounts or {}).get(step)
            indexes = [index for index, item in enumerate(mounts or ()) if item.get("name") == name]
            draft.do(*remove_items(("spec", kind, number, *path), indexes))


class Limits(Struct):
    """The limits of a search in time and trials, and the number of trials so far."""

    deadline: float
    max_trials: int = MAX_TRIALS
    trials: int = 0

    def spend(self) -> None:
        """Count a trial. Raise LimitReached if a limit is exceeded."""
        if self.trials >= self.max_trials:
            raise LimitReached(f"the limit of {self.max_trials} trials was reached")
        if monotonic() > self.deadline:
            raise LimitReached("the time limit was reached (raise it with --timeout)")
        self.trials += 1


class Subject:
    """A pending pod in a session. ``base`` edits are applied before every trial.

    ``only_node``: the pod must fit there. ``preempts``: a nomination is sufficient. ``spared`` pods remain.
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
            # The session forgets these objects at the end of the branch.
            patched = [edit.target for edit in base if isinstance(edit, PatchObject)]
            self._patched = {target: session.objects.content(target) for target in patched}
            nodes = (self.nodes.find(target.name) for target in patched if target.kind == "Node")
            self._patched_taints = {info.name: info.taints for info in nodes if info is not None}
        self._cached_attempts: dict[tuple[str, ...], Attempt | None] = {}
        self._aim: tuple[tuple[str, ...], int] | None = None

    def _look(self) -> tuple[Attempt, Obstacles]:
        attempt = self.session.try_pod(self.key, preempts=False)
        return attempt, find_obstacles(self.session, self.session.pod(self.key), attempt)

    @cached_property
    def may_preempt(self) -> bool:
        """Whether a nomination would be new: the pod preempts no pods now, and there are candidates."""
        if self.preempts or self.pod.spec.preemption_policy == NEVER:
            return False
        lowest = min((pod.priority for info in self.nodes for pod in info.pods.values()), default=self.pod.priority)
        return lowest < self.pod.priority and not self.is_nominated

    @cached_property
    def is_nominated(self) -> bool:
        """Whether the pod preempts other pods without a change."""
        with self.session.branch():
            self.session.apply(*self.base)
            return bool(self.session.try_pod(self.key).nominated_node)

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

    def label_values(self, key: str) -> list[str]:
        """List the values of a label on the nodes. A column of the table may also contain values of earlier trials."""
        return sorted({info.labels[key] for info in self.nodes if key in info.labels})

    @cached_property
    def runtime_labels(self) -> Mapping[str, str]:
        """The part of the node selector that admission copies from the runtime class of the pod."""
        name = self.pod.spec.runtime_class_name
        shaping = self.session.objects.given.shaping if name else ()
        classes = (item for item in shaping if item["kind"] == "RuntimeClass" and item["metadata"]["name"] == name)
        return (next(iter(classes), {}).get("scheduling") or {}).get("nodeSelector") or {}

    def with_base(self, *edits: Edit) -> "Subject":
        """Return a subject to which some more edits are applied."""
        return self._like(base=(*self.base, *edits), preempts=self.preempts)

    def preempting(self) -> "Subject":
        """Return a subject for which a nomination is sufficient."""
        return self._like(base=self.base, preempts=True)

    def aiming(self, plugins: tuple[str, ...], row: int) -> "Subject":
        """Return a subject that fits when some plugins accept a node, regardless of the other plugins."""
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

    def draft(self) -> Draft:
        """Start a change of the pod that the API server permits only on a new object."""
        return Draft(self.id, self.content, must_replace=True)

    def live_draft(self) -> Draft:
        """Start a change of the pod that the API server permits on the existing object."""
        return Draft(self.id, self.content)

    def draft_object(self, kind: str, name: str, namespace: str = "", *, must_replace: bool = False) -> Draft:
        """Start a change of another object."""
        target = ObjectId(kind, namespace, name)
        content = self._patched.get(target) or self.session.objects.content(target)
        return Draft(target, content, must_replace=must_replace)

    def taints(self, node: NodeInfo) -> tuple[Taint, ...]:
        """Return the taints of a node after the base edits."""
        return self._patched_taints.get(node.name, node.taints)

    def trial(self, *edits: Edit) -> Attempt | None:
        """Apply edits and try the pod. Return the attempt, or ``None`` if the pod does not fit."""
        cache_key = tuple(repr(edit) for edit in edits)
        if cache_key not in self._cached_attempts:
            self.limits.spend()
            self._cached_attempts[cache_key] = self._try(edits)
        return self._cached_attempts[cache_key]

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
            return self._place()

    def _place(self) -> Attempt | None:
        """Place the pod. Return ``None`` if it does not fit. Groups override this."""
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
            return attempt.fits_row(info.row)
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

    def largest(self, low: int, high: int, make_edits: Callable[[int], Sequence[Edit]], guess: int) -> int | None:
        """Find the largest amount with which the pod fits, from ``low`` to below ``high``, with which it does not fit.

        Two trials are sufficient if ``guess`` is right.
        """
        if low < guess < high and self.trial(*make_edits(guess)):
            if guess + 1 >= high or not self.trial(*make_edits(guess + 1)):
                return guess
            low = guess + 1
        else:
            high = guess if low < guess < high else high
            if not self.trial(*make_edits(low)):
                return None
            low, high = self._gallop(low, high, make_edits)
        while high - low > 1:
            middle = (low + high) // 2
            if self.trial(*make_edits(middle)):
                low = middle
            else:
                high = middle
        return low

    def smallest(self, low: int, high: int, make_edits: Callable[[int], Sequence[Edit]], guess: int) -> int | None:
        """Find the smallest amount with which the pod fits, above ``low``, with which it does not, up to ``high``."""
        largest = self.largest(-high, -low, lambda amount: make_edits(-amount), -guess)
        return None if largest is None else -largest

    def _gallop(self, low: int, high: int, make_edits: Callable[[int], Sequence[Edit]]) -> tuple[int, int]:
        """Narrow a wide range from above in growing steps: the result is often close to the current value."""
        step = 1
        while (closer := high - step) > low and step < high - low:
            if self.trial(*make_edits(closer)):
                return closer, high
            high, step = closer, step * 4
        return low, high

    def fewest(
        self, items: Sequence[Any], make_edits: Callable[[Sequence[Any]], Sequence[Edit]], *, spares_last: bool = False
    ) -> list[Any] | None:
        """Find a minimal set of items: one alone if one is sufficient; ``None`` if all do not help.

        The first items are omitted first; with ``spares_last``, the last ones.
        """
        if not items or not self.trial(*make_edits(items)):
            return None
        for item in items:
            if self.trial(*make_edits([item])):
                return [item]
        candidates = list(items)
        for item in reversed(items) if spares_last else items:
            fewer = [candidate for candidate in candidates if candidate is not item]
            if fewer and self.trial(*make_edits(fewer)):
                candidates = fewer
        return candidates

    def needs_all(self, *edits: Edit) -> bool:
        """Return whether edits help together, and every edit is necessary. A configuration is not retried."""
        if any(isinstance(edit, EditConfig) for edit in edits):
            return True
        subsets = [tuple(candidate for candidate in edits if candidate is not edit) for edit in edits]
        return all(self.trial(*fewer) is None for fewer in subsets) and self.trial(*edits) is not None

    def offer(self, kind: str, text: str, *edits: Edit, cost: int = 0) -> Remedy | None:
        """Return a change if it helps."""
        attempt = self.trial(*edits)
        if attempt is None or not self.is_admitted(edits):
            return None
        names = [] if attempt.node else find_violated_budgets(self.session, attempt.victims)
        violation = f", although this violates the disruption budget {' and '.join(names)}" if names else ""
        return Remedy(kind, f"{text}{violation}", (*self.base, *edits), attempt, cost)

    def is_admitted(self, edits: Sequence[Edit]) -> bool:
        """Return whether the API server accepts the edits. An object that is invalid already is not checked."""
        objects, check = self.session.objects, self.session.objects.check
        with self.session.branch():
            for edit in (*self.base, *edits):
                if isinstance(edit, CreateObject) and check.find_problem(edit.content):
                    return False
                was_valid = isinstance(edit, PatchObject) and not check.find_problem(objects.content(edit.target))
                self.session.apply(edit)
                if isinstance(edit, PatchObject) and was_valid and check.find_problem(objects.content(edit.target)):
                    return False
        return True


def find_violated_budgets(session: Session, victims: Sequence[str]) -> list[str]:
    """Return the names of the disruption budgets that the eviction of pods violates."""
    lister = session.scheduler.objects[PodDisruptionBudget]
    budgets = Budgets(lister, session.scheduler.services.features)
    protected, _ = budgets.split([session.pod(key) for key in victims])
    return [
        budget.name
        for budget in lister.list()
        if budget.spec.selector is not None
        and any(
            pod.namespace == budget.namespace and label_matcher(budget.spec.selector).matches(pod.labels)
            for pod in protected
        )
    ]


Fix = Callable[[Subject, list[int]], Iterator[Remedy]]
"""Searches for changes that remove an obstacle. The rows are those without other obstacles."""
S = TypeVar("S", bound=Subject)
P = ParamSpec("P")


def fix(
    limit: int = 1,
) -> Callable[[Callable[Concatenate[S, P], Iterator[ProposedChange]]], Callable[Concatenate[S, P], Iterator[Remedy]]]:
    """Make a fix of a function that proposes changes: try them in order, and return the first ones that help."""

    def decorate(
        propose: Callable[Concatenate[S, P], Iterator[ProposedChange]],
    ) -> Callable[Concatenate[S, P], Iterator[Remedy]]:
        @wraps(propose)
        def search(subject: S, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Remedy]:
            proposals = propose(subject, *args, **kwargs)
            # Lazily: the function stops proposing when enough changes help.
            remedies = (subject.offer(kind, text, *edits, cost=cost) for kind, text, edits, cost in proposals)
            return islice(filter(None, remedies), limit)

        return search

    return decorate
