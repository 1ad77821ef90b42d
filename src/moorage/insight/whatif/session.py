"""A what-if session: a cluster, a scheduler with its real plugins, and changes that can be undone.

>>> from moorage.scheduler.wiring.policy import collect_plugins, load_policy
>>> from moorage.kube.manifests import to_documents
>>> node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"},
...         "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
>>> pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"},
...        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
>>> session = Session(to_documents([node, pod], source="here"), load_policy(collect_plugins()))
>>> session.try_pod("default/web").node
''
>>> with session.branch():
...     session.apply(PatchObject(ObjectId("Node", "", "n1"), (
...         {"op": "replace", "path": "/status/allocatable/cpu", "value": "4"},)))
...     session.try_pod("default/web").node
'n1'
>>> session.try_pod("default/web").node
''
>>> session.close()
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from moorage.cluster import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, did_you_mean
from moorage.common.virtual_time import VirtualRunner
from moorage.insight.whatif.attempts import Attempt, GroupOutcome
from moorage.insight.whatif.edits import Content, CreateObject, DeleteObject, Edit, EditConfig, ObjectId, PatchObject
from moorage.insight.whatif.objects import WrittenObjects, missing
from moorage.insight.whatif.tables import Rows, filter_rows, score_rows
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import Document
from moorage.scheduler.decisions.attempts import AttemptLog
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.effects import Effects, OnFailure
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Unschedulable
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.plugin import Plugin, PreEnqueuePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.gates import call_pre_enqueue
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.pod_groups import PodGroups
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import Policy

ARRIVAL_INTERVAL: Final = 0.001
"""Seconds between the arrivals of created objects."""


class Session:
    """A cluster in which changes and placements can be tried out. Close it, or use it in a ``with`` block.

    With ``honors_nominations``, nominated nodes are reserved for their pods, as in a live cluster.
    """

    def __init__(self, documents: Iterable[Document], policy: Policy, *, honors_nominations: bool = True) -> None:
        self.given_policy = policy
        self.honors_nominations = honors_nominations
        self.policy = search_all_nodes(policy)
        self.objects = WrittenObjects(documents, policy.features)
        self._clock = VirtualClock(self.objects.given.now)
        self._runner = VirtualRunner(self._clock)
        self._attempts = LastAttempt()
        self._offline = self._runner.run(self._start_scheduler())
        self.scheduler: Scheduler = self._offline.scheduler
        assert isinstance(self.scheduler.binder, RevocablePlacements)
        self._binder = self.scheduler.binder
        self._undo: list[Callable[[], None]] = []
        self._steps: list[int] = []
        """The position in ``_undo`` at which each step began."""
        if not honors_nominations:
            for pod in self.objects.given.waiting:
                self.scheduler.queue.nominator.remove(pod)

    @classmethod
    def open(
        cls,
        *cluster: str | Path | Content,
        snapshot: str | Path = "",
        kubeconfig: str | Path = "",
        context: str = "",
        config: str | Path = "",
        plugins: Iterable[type[Plugin] | str] = (),
        feature_gates: str = "",
    ) -> Self:
        """Open a session on files, objects or a snapshot; by default, on the cluster of the current kubectl context.

        ``plugins`` are classes or ``module:Class``. They are enabled in addition to the default plugins, unless
        ``config`` (a file or its text) disables them. The live cluster is only read. Notes are logged.
        """
        from moorage.insight.whatif.sources import load_session_cluster, load_session_policy

        policy = load_session_policy(config, plugins, feature_gates)
        loaded_cluster = load_session_cluster(cluster, str(snapshot), str(kubeconfig), context)
        return cls(loaded_cluster.documents, policy, honors_nominations=loaded_cluster.honors_nominations)

    async def _start_scheduler(self) -> OfflineScheduler[DiscardingApi]:
        tuning = Tuning(effects=REVOCABLE_EFFECTS)
        offline = OfflineScheduler(
            self.policy, DiscardingApi(), self._clock, observers=(self._attempts,), tuning=tuning
        )
        cluster = self.objects.given
        offline.load((*cluster.objects, *cluster.custom_objects()), arrival_interval=1.0)
        await offline.start()
        return offline

    def close(self) -> None:
        """Close the plugins and the loop of the session."""
        self._runner.run(self._offline.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pod(self, key: str) -> Pod:
        """Find a pod by ``namespace/name``. Raise InputError with a suggestion if it does not exist."""
        namespace, _, name = key.rpartition("/")
        target = ObjectId("Pod", namespace or "default", name)
        pod = self.objects.find(target)
        if not isinstance(pod, Pod):
            raise missing(target, (item.key for item in self.objects.known("Pod")))
        return pod

    def pods(self) -> Rows:
        """List all pods with their current nodes."""
        rows = []
        for target in self.objects.known("Pod"):
            pod = self.objects.find(target)
            assert isinstance(pod, Pod)
            placed = self.scheduler.cache.pod(pod.uid) or pod
            row = {"pod": pod.key, "node": placed.node_name, "priority": pod.priority}
            rows.append({**row, "scheduler": pod.scheduler_name, "phase": pod.status.phase})
        return rows

    def filter(self, pod: Pod | str | Content, plugin: str = "") -> Rows:
        """Filter all nodes for a pod, by the entire profile or by one of its plugins.

        Return one row per node: node, fits, plugin, code, reason. A placed pod is filtered like a pending pod.
        """
        return self._make_rows(filter_rows, pod, plugin)

    def score(self, pod: Pod | str | Content, plugin: str = "") -> Rows:
        """Score the feasible nodes for a pod, by the entire profile or by one of its plugins. The best node is first.

        Return one row per node: node, total, and the score of each plugin; for one plugin: weighed, normalized and raw.
        """
        return self._make_rows(score_rows, pod, plugin)

    def _make_rows(
        self, make: Callable[[ProfileRunner, Pod, str], Rows], pod: Pod | str | Content, plugin: str
    ) -> Rows:
        async def work(pending_pod: Pod) -> Rows:
            with self.scheduler.lift_holds(pending_pod):
                return make(self.find_runner(pending_pod), pending_pod, plugin)

        with self.branch():
            pending_pod = self._resolve(pod)
            if placed := self.scheduler.cache.pod(pending_pod.uid):
                pending_pod = self.unplace(placed)
            return self._runner.run(work(pending_pod))

    def _resolve(self, pod: Pod | str | Content) -> Pod:
        """Find a pod by name, or create it from a manifest if it does not exist."""
        if isinstance(pod, Pod):
            return pod
        if isinstance(pod, str):
            return self.pod(pod)
        target = ObjectId.of(pod)
        if target.kind != "Pod":
            raise InputError(
                f"{target.kind} {target.key}", "not a Pod", hint="pass a Pod manifest, or namespace/name of a pod"
            )
        if target not in self.objects:
            self._apply(CreateObject(pod))
        return self.pod(target.key)

    def find_runner(self, pod: Pod) -> ProfileRunner:
        """Return the profile of a pod. Raise InputError if no profile has its schedulerName."""
        runner = self.scheduler.runners.get(pod.scheduler_name)
        if runner is None:
            names = sorted(self.scheduler.runners)
            hint = did_you_mean(pod.scheduler_name, names) or f"add a profile to --config; its profiles are {names}"
            problem = f"the configuration has no profile for schedulerName {pod.scheduler_name!r}"
            raise InputError(f"Pod {pod.key}", problem, hint=hint)
        return runner

    @contextmanager
    def branch(self) -> Iterator[Self]:
        """Undo all changes of the block at its end."""
        mark = self.mark()
        try:
            yield self
        finally:
            self.roll_back(mark)

    def mark(self) -> int:
        """Return the current state for :meth:`roll_back`."""
        return len(self._undo)

    def roll_back(self, mark: int) -> None:
        """Undo all changes since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()
        while self._steps and self._steps[-1] >= mark:
            self._steps.pop()

    def undo(self) -> None:
        """Undo the last edit or placement. Raise InputError if the session has no changes."""
        if not self._steps:
            raise InputError("undo", "nothing to undo")
        self.roll_back(self._steps[-1])

    def _end_step(self, mark: int) -> None:
        """Combine all changes since a mark into one step for :meth:`undo`."""
        if len(self._undo) > mark:
            self._steps.append(mark)

    def apply(self, *edits: Edit) -> None:
        """Apply edits to the cluster. Raise InputError and change nothing if one of them is invalid."""
        mark = self.mark()
        try:
            for edit in edits:
                self._apply(edit)
        except BaseException:
            self.roll_back(mark)
            raise
        self._end_step(mark)

    def _apply(self, edit: Edit) -> None:
        """Change an object, and record how to undo it."""
        if isinstance(edit, EditConfig):
            raise InputError("config", "the configuration of a session cannot change; open a new session")
        target = ObjectId.of(edit.content) if isinstance(edit, CreateObject) else edit.target
        document, before = self.objects.remember(target)
        after: KubeObject | None = None
        match edit:
            case PatchObject():
                after = self.objects.patched(edit)
            case CreateObject():
                after = self.objects.created(edit.content)
                # Pods arrive one after another: the members of a group are tried in the order of arrival.
                self._clock.advance(ARRIVAL_INTERVAL)
            case DeleteObject():
                self.objects.deleted(target)
        self._undo.append(partial(self.objects.restore, target, (document, before)))
        self._report(before, after)

    def _report(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if type(before if after is None else after) in self._offline.kinds:
            self._deliver(before, after)
            self._undo.append(partial(self._deliver, after, before))

    def _deliver(self, before: KubeObject | None, after: KubeObject | None) -> None:
        self._offline.apply(before, after)
        if isinstance(after, Pod) and not self.honors_nominations:
            self.scheduler.queue.nominator.remove(after)

    def unplace(self, pod: Pod) -> Pod:
        """Remove a pod from its node, as if it had never been placed. Return the pending pod."""
        metadata = replace(pod.metadata, deletion_timestamp=None)
        pending_pod = replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""))
        self._report(pod, None)
        self._report(None, pending_pod)
        return pending_pod

    def try_pod(self, pod: Pod | str | Content, *, in_detail: bool = False, preempts: bool = True) -> Attempt:
        """Try a pod and undo the placement. ``preempts=False`` skips preemption."""
        with self.branch():
            return self.place(pod, in_detail=in_detail, preempts=preempts)

    def place(self, pod: Pod | str | Content, *, in_detail: bool = False, preempts: bool = True) -> Attempt:
        """Try a pod. If it fits, it remains on its node until the branch ends, or until :meth:`undo`."""
        mark = self.mark()
        pending_pod = self._resolve(pod)
        if placed := self.scheduler.cache.pod(pending_pod.uid):
            hint = "call undo() to undo a placement, or unplace() to remove any pod from its node"
            raise InputError(f"Pod {pending_pod.key}", f"already on node {placed.node_name}", hint=hint)
        if pending_pod.is_terminating:
            raise InputError(f"Pod {pending_pod.key}", "the pod is being deleted")
        runner = self.find_runner(pending_pod)
        gates = tuple(
            status for plugin in runner.profile.pre_enqueue if (status := _gate(plugin, pending_pod)) is not None
        )
        groups = self.scheduler.cache.groups
        if not gates and groups is not None and pending_pod.group_key and groups.find_root(pending_pod) is None:
            # The queue holds it back without calling any plugin.
            gates = (
                Status.unresolvable(
                    f"its pod group {pending_pod.group_key}, or a parent of that group, does not exist"
                ),
            )
        self._attempts.describe_nodes(in_detail)
        attempt = self._runner.run(self._attempt(pending_pod, runner, gates, preempts))
        self._end_step(mark)
        return attempt

    async def _attempt(self, pod: Pod, runner: ProfileRunner, gates: tuple[Status, ...], preempts: bool) -> Attempt:
        attempts, binder = self._attempts, self._binder
        attempts.last = None
        nominator = self.scheduler.queue.nominator
        if nominated := nominator.node_of(pod):
            # A placement would end the nomination, and for the pod itself only its status counts.
            nominator.remove(pod)
            self._undo.append(partial(nominator.add, pod, nominated))
        runner.filtering.rotation.start = 0
        await self.scheduler.try_pod(QueuedPodInfo(pod, self._clock.now()), preempts=preempts)
        decision = replace(attempts.decisions.pop(pod.uid), attempts=0)
        self._undo += [placed.undo.unwind for placed in binder.take()]
        result, attempts.last = attempts.last, None
        return Attempt(decision, result, gates)

    def groups(self) -> PodGroups:
        """Return the pod groups. Raise InputError if the feature gate is off."""
        groups = self.scheduler.cache.groups
        if groups is None:
            raise InputError("PodGroup", "pod groups are disabled", hint="pass --feature-gates GenericWorkload=true")
        return groups

    def try_group(self, key: str, *, in_detail: bool = False, preempts: bool = True) -> GroupOutcome:
        """Try a pod group with the tree that it belongs to, and undo the placements."""
        with self.branch():
            return self.place_group(key, in_detail=in_detail, preempts=preempts)

    def place_group(self, key: str, *, in_detail: bool = False, preempts: bool = True) -> GroupOutcome:
        """Try a pod group. If it fits, its members remain on their nodes until the branch ends."""
        queued = self.queued_group(key)
        if queued is None:
            return GroupOutcome()
        runner = self.find_runner(queued.members[0].pod)
        gates = (_gate(plugin, member.pod) for member in queued.members for plugin in runner.profile.pre_enqueue)
        rejections = tuple(status for status in gates if status is not None)
        self._attempts.describe_nodes(in_detail)
        mark = self.mark()
        outcome = self._runner.run(self._attempt_group(queued, rejections, preempts=preempts))
        self._end_step(mark)
        return outcome

    def queued_group(self, key: str) -> QueuedPodGroupInfo | None:
        """Return the pending members as the queue would, or ``None`` if no member is pending."""
        groups = self.groups()
        group = groups.group(key)
        if group is None:
            raise missing(
                ObjectId("PodGroup", *key.split("/", 1)), (item.key for item in self.objects.known("PodGroup"))
            )
        root = groups.find_group_root(group)
        if root is None:
            raise InputError(f"PodGroup {key}", "a parent group does not exist")
        entity: QueuedPodGroupInfo | None = None
        for leaf in groups.leaf_keys(root):
            members = groups.members(leaf)
            for pod in members.unscheduled() if members is not None else ():
                queued_pod = self.scheduler.queue.find(pod)
                info = QueuedPodInfo(pod, self._clock.now() if queued_pod is None else queued_pod.timestamp)
                if entity is None:
                    entity = QueuedPodGroupInfo(root, info)
                else:
                    entity.insert(info)
        return entity

    async def _attempt_group(
        self, queued: QueuedPodGroupInfo, gates: tuple[Status, ...], *, preempts: bool
    ) -> GroupOutcome:
        assert self.scheduler.groups is not None
        attempts = self._attempts
        await self.scheduler.groups.try_group(queued, preempts=preempts)
        self._undo += [placed.undo.unwind for placed in self._binder.take()]
        attempt, attempts.last_group = attempts.last_group, None
        infos = () if attempt is None else attempt.members
        decisions = {info.key: attempts.decisions.pop(info.uid) for info in infos if info.uid in attempts.decisions}
        return GroupOutcome(attempt, {key: replace(decision, attempts=0) for key, decision in decisions.items()}, gates)


def _gate(plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
    """Return the status with which a PreEnqueue plugin rejects a pod. An exception is treated as a rejection."""
    status = call_pre_enqueue(plugin, pod)
    return None if status is None else status.by(plugin.name)


class LastAttempt(AttemptLog):
    """Keeps the search result of the last attempt. Node details are optional."""

    def __init__(self) -> None:
        super().__init__(with_nodes=False)
        self.last: SearchResult | ExtendedNodes | None = None
        self.last_group: GroupAttempt | None = None

    def on_group_end(self, attempt: GroupAttempt) -> None:
        """Keep the attempt of a group."""
        self.last_group = attempt
        super().on_group_end(attempt)

    def describe_nodes(self, enabled: bool) -> None:
        """Set whether decisions describe every node."""
        self._with_nodes = enabled

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Keep the search result."""
        self.last = result
        super().on_search(queued, runner, result)


class RevocablePlacements:
    """Binds nothing, and keeps the undo stacks of all placements of an attempt.

    A pod that a Permit plugin delays is treated as placed.
    """

    in_flight = 0

    def __init__(
        self, services: Services, queue: SchedulingQueue, _on_failure: OnFailure, _observer: AttemptObserver | None
    ) -> None:
        self._services, self._queue = services, queue
        self._placements: list[PendingBinding] = []

    def start(self, binding: PendingBinding) -> None:
        """End the attempt."""
        self._queue.done(binding.pod.uid)
        if binding.permit is not None:
            self._services.waiting.release(binding.pod.uid)
        self._placements.append(binding)

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Return False: no pod is in PreBind."""
        return False

    def take(self) -> list[PendingBinding]:
        """Return the placements since the last call."""
        placements, self._placements = self._placements, []
        return placements


class UnchangedPods:
    """Leaves a pod unchanged when its attempt fails."""

    def __init__(self, _services: Services, _queue: SchedulingQueue) -> None:
        pass

    def handle(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Do nothing."""


REVOCABLE_EFFECTS: Final = Effects(UnchangedPods, RevocablePlacements)
