"""A session: a cluster and a policy, the real scheduler with the real plugins, and branches that can be undone.

>>> from moorage.scheduler.wiring.policy import collect_plugins, load_policy
>>> from moorage.kube.manifests import documents_of
>>> node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"},
...         "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
>>> pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"},
...        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
>>> session = Session(documents_of([node, pod], source="here"), load_policy(collect_plugins()))
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
from typing import Self

from msgspec.structs import replace

from moorage.cluster import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, did_you_mean
from moorage.common.virtual_time import VirtualRunner
from moorage.insight.whatif.attempts import Attempt, GroupOutcome
from moorage.insight.whatif.edits import Content, CreateObject, DeleteObject, Edit, EditConfig, ObjectId, PatchObject
from moorage.insight.whatif.objects import WrittenObjects, missing
from moorage.insight.whatif.revocable import REVOCABLE_EFFECTS, LastAttempt, RevocablePlacements
from moorage.insight.whatif.tables import Rows, filter_rows, score_rows
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import Document
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.scheduler.framework.plugin import Plugin, PreEnqueuePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.state.pod_groups import PodGroups
from moorage.scheduler.wiring.parts import Observers, Tuning
from moorage.scheduler.wiring.policy import Policy


class Session:
    """A cluster in which things can be tried out; must be closed, or used in a ``with`` block.

    ``honours_nominations``: nodes to which other pods are nominated are kept for them, as in a live cluster.
    """

    def __init__(self, documents: Iterable[Document], policy: Policy, *, honours_nominations: bool = True) -> None:
        self.given_policy = policy
        self.honours_nominations = honours_nominations
        self.policy = search_all_nodes(policy)
        self.objects = WrittenObjects(documents, policy.features)
        self._clock = VirtualClock(self.objects.given.now)
        self._runner = VirtualRunner(self._clock)
        self._watching = LastAttempt()
        self._offline = self._runner.run(self._start_scheduler())
        self.scheduler: Scheduler = self._offline.scheduler
        assert isinstance(self.scheduler.binder, RevocablePlacements)
        self._binder = self.scheduler.binder
        self._undo: list[Callable[[], None]] = []
        self._steps: list[int] = []
        """Where each thing that was done began in ``_undo``."""
        if not honours_nominations:
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
        """Open a session on files, objects, a snapshot, or (if none is given) the live cluster that kubectl would use.

        ``plugins`` are classes, or named as ``module:Class``; they are enabled beside the default ones, unless
        ``config`` (a file, or its text) says otherwise. The live cluster is only read. Notes go to the log.
        """
        from moorage.insight.whatif.opening import policy_of, read_cluster_of

        policy = policy_of(config, plugins, feature_gates)
        loaded = read_cluster_of(cluster, str(snapshot), str(kubeconfig), context)
        return cls(loaded.documents, policy, honours_nominations=loaded.honours_nominations)

    async def _start_scheduler(self) -> OfflineScheduler[DiscardingApi]:
        observers, tuning = Observers(attempts=self._watching), Tuning(effects=REVOCABLE_EFFECTS)
        offline = OfflineScheduler(self.policy, DiscardingApi(), self._clock, observers=observers, tuning=tuning)
        cluster = self.objects.given
        offline.load((*cluster.objects, *cluster.custom_objects()), arrival_interval=1.0)
        await offline.start()
        return offline

    def close(self) -> None:
        """Give back what the session holds."""
        self._runner.run(self._offline.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pod(self, key: str) -> Pod:
        """Find a pod by ``namespace/name``; InputError with a suggestion if there is none."""
        namespace, _, name = key.rpartition("/")
        wanted = ObjectId("Pod", namespace or "default", name)
        found = self.objects.find(wanted)
        if not isinstance(found, Pod):
            raise missing(wanted, (known.key for known in self.objects.known("Pod")))
        return found

    def pods(self) -> Rows:
        """List all pods, with the nodes that they have now."""
        found = []
        for known in self.objects.known("Pod"):
            pod = self.objects.find(known)
            assert isinstance(pod, Pod)
            placed = self.scheduler.cache.pod(pod.uid) or pod
            row = {"pod": pod.key, "node": placed.node_name, "priority": pod.priority}
            found.append({**row, "scheduler": pod.scheduler_name, "phase": pod.status.phase})
        return found

    def filter(self, pod: Pod | str | Content, plugin: str = "") -> Rows:
        """Say of every node whether it will do for a pod, and why not: by the whole profile, or by one plugin of it.

        One row a node: node, fits, plugin, code, reason. A pod that has a node is judged as if it had none.
        """
        return self._ask(filter_rows, pod, plugin)

    def score(self, pod: Pod | str | Content, plugin: str = "") -> Rows:
        """Score the nodes that will do for a pod, the best first: by the whole profile, or by one plugin of it.

        One row a node: node, total and what each plugin adds to it; of one plugin: weighed, normalized and raw.
        """
        return self._ask(score_rows, pod, plugin)

    def _ask(self, ask: Callable[[ProfileRunner, Pod, str], Rows], pod: Pod | str | Content, plugin: str) -> Rows:
        async def work(waiting: Pod) -> Rows:
            return ask(self.find_runner(waiting), waiting, plugin)

        with self.branch():
            waiting = self._given(pod)
            if placed := self.scheduler.cache.pod(waiting.uid):
                waiting = self.unplace(placed)
            return self._runner.run(work(waiting))

    def _given(self, pod: Pod | str | Content) -> Pod:
        """Find a pod, or create it if it is written out and not there yet."""
        if isinstance(pod, Pod):
            return pod
        if isinstance(pod, str):
            return self.pod(pod)
        target = ObjectId.of(pod)
        if target.kind != "Pod":
            raise InputError(f"{target.kind} {target.key}", "this is not a pod", hint="give a Pod, or its name")
        if target not in self.objects:
            self._apply(CreateObject(pod))
        return self.pod(target.key)

    def find_runner(self, pod: Pod) -> ProfileRunner:
        """Return the profile that is to place a pod; InputError if it is another scheduler's."""
        runner = self.scheduler.runners.get(pod.scheduler_name)
        if runner is None:
            known = sorted(self.scheduler.runners)
            hint = did_you_mean(pod.scheduler_name, known) or f"give --config a profile of that name; {known} are known"
            problem = f"it asks for the scheduler {pod.scheduler_name!r}, which is not one of this configuration"
            raise InputError(f"Pod {pod.key}", problem, hint=hint)
        return runner

    @contextmanager
    def branch(self) -> Iterator[Self]:
        """Undo everything that is done in a block when it ends."""
        mark = self.mark()
        try:
            yield self
        finally:
            self.roll_back(mark)

    def mark(self) -> int:
        """Return what :meth:`roll_back` needs to come back to how things are now."""
        return len(self._undo)

    def roll_back(self, mark: int) -> None:
        """Undo everything that was done since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()
        while self._steps and self._steps[-1] >= mark:
            self._steps.pop()

    def undo(self) -> None:
        """Take back the last thing that was done: an edit, or a placement. InputError if there is nothing."""
        if not self._steps:
            raise InputError("undo", "nothing has been done yet, or all of it was undone")
        self.roll_back(self._steps[-1])

    def _done(self, mark: int) -> None:
        """Note that what was done since a mark is one step to undo."""
        if len(self._undo) > mark:
            self._steps.append(mark)

    def apply(self, *edits: Edit) -> None:
        """Change the cluster; InputError, with nothing changed, if one of the edits cannot be made."""
        mark = self.mark()
        try:
            for edit in edits:
                self._apply(edit)
        except BaseException:
            self.roll_back(mark)
            raise
        self._done(mark)

    def _apply(self, edit: Edit) -> None:
        match edit:
            case PatchObject():
                was = self.objects.remember(edit.target)
                after = self.objects.patched(edit)
                self._follow(edit.target, was[1], after, was)
            case CreateObject():
                target = ObjectId.of(edit.content)
                was = self.objects.remember(target)
                self._follow(target, None, self.objects.created(edit.content), was)
            case DeleteObject():
                was = self.objects.remember(edit.target)
                self._follow(edit.target, self.objects.deleted(edit.target), None, was)
            case EditConfig():
                raise InputError("config", "a session keeps its configuration; open another one with the new one")

    def _follow(
        self,
        target: ObjectId,
        before: KubeObject | None,
        after: KubeObject | None,
        was: tuple[Document | None, KubeObject | None],
    ) -> None:
        """Have the scheduler know of a change, and note how to take it back."""
        self._undo.append(partial(self.objects.restore, target, was))
        self._tell(before, after)

    def _tell(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if type(before if after is None else after) in self._offline.kinds:
            self._deliver(before, after)
            self._undo.append(partial(self._deliver, after, before))

    def _deliver(self, before: KubeObject | None, after: KubeObject | None) -> None:
        self._offline.apply(before, after)
        if isinstance(after, Pod) and not self.honours_nominations:
            self.scheduler.queue.nominator.remove(after)

    def unplace(self, pod: Pod) -> Pod:
        """Take a pod off its node, as if it had never been placed; return it as it waits then."""
        metadata = replace(pod.metadata, deletion_timestamp=None)
        waiting = replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""))
        self._tell(pod, None)
        self._tell(None, waiting)
        return waiting

    def try_pod(self, pod: Pod | str | Content, *, in_detail: bool = False, preempts: bool = True) -> Attempt:
        """Try a pod, and leave everything as it was; ``preempts``: if it fits nowhere, look for victims."""
        with self.branch():
            return self.place(pod, in_detail=in_detail, preempts=preempts)

    def place(self, pod: Pod | str | Content, *, in_detail: bool = False, preempts: bool = True) -> Attempt:
        """Try a pod; if it fits, it stays on its node until the branch ends, or :meth:`undo`."""
        mark = self.mark()
        waiting = self._given(pod)
        if placed := self.scheduler.cache.pod(waiting.uid):
            hint = "undo() takes a placement back, unplace() takes any pod off its node"
            raise InputError(f"Pod {waiting.key}", f"it is on {placed.node_name} already", hint=hint)
        if waiting.is_terminating:
            raise InputError(f"Pod {waiting.key}", "it is being deleted, and gets no node any more")
        runner = self.find_runner(waiting)
        gates = tuple(status for plugin in runner.profile.pre_enqueue if (status := _gate(plugin, waiting)) is not None)
        groups = self.scheduler.cache.groups
        if not gates and groups is not None and waiting.group_key and groups.root_of(waiting) is None:
            # The queue keeps it aside without asking any plugin.
            gates = (Status.unresolvable(f"its group {waiting.group_key}, or one above that, is not there"),)
        self._watching.describe_nodes(in_detail)
        attempt = self._runner.run(self._attempt(waiting, runner, gates, preempts))
        self._done(mark)
        return attempt

    async def _attempt(self, pod: Pod, runner: ProfileRunner, gates: tuple[Status, ...], preempts: bool) -> Attempt:
        watching, binder = self._watching, self._binder
        watching.last = None
        nominator = self.scheduler.queue.nominator
        if nominated := nominator.node_of(pod):
            # A placement would end it, and for the pod itself only its status counts.
            nominator.remove(pod)
            self._undo.append(partial(nominator.add, pod, nominated))
        runner.filtering.rotation.start = 0
        await self.scheduler.try_pod(QueuedPodInfo(pod, self._clock.now()), preempts=preempts)
        decision = replace(watching.decisions.pop(pod.uid), attempts=0)
        self._undo += [placed.undo.unwind for placed in binder.take()]
        found, watching.last = watching.last, None
        return Attempt(decision, found, gates)

    def groups(self) -> PodGroups:
        """Return the groups of pods; InputError if there are none in this configuration."""
        groups = self.scheduler.cache.groups
        if groups is None:
            raise InputError("PodGroup", "groups are not looked at", hint="--feature-gates GenericWorkload=true")
        return groups

    def try_group(self, key: str, *, in_detail: bool = False, preempts: bool = True) -> GroupOutcome:
        """Try a group of pods as a whole, with the tree that it is part of, and leave everything as it was."""
        with self.branch():
            return self.place_group(key, in_detail=in_detail, preempts=preempts)

    def place_group(self, key: str, *, in_detail: bool = False, preempts: bool = True) -> GroupOutcome:
        """Try a group of pods as a whole; if it fits, its members stay on their nodes until the branch ends."""
        queued = self.queued_group(key)
        if queued is None:
            return GroupOutcome()
        runner = self.find_runner(queued.members[0].pod)
        gates = (_gate(plugin, member.pod) for member in queued.members for plugin in runner.profile.pre_enqueue)
        held = tuple(status for status in gates if status is not None)
        self._watching.describe_nodes(in_detail)
        mark = self.mark()
        outcome = self._runner.run(self._attempt_group(queued, held, preempts=preempts))
        self._done(mark)
        return outcome

    def queued_group(self, key: str) -> QueuedPodGroupInfo | None:
        """Put the members that wait together as the queue would; ``None`` if none does."""
        groups = self.groups()
        group = groups.group(key)
        if group is None:
            raise missing(
                ObjectId("PodGroup", *key.split("/", 1)), (found.key for found in self.objects.known("PodGroup"))
            )
        root = groups.root_of_group(group)
        if root is None:
            raise InputError(f"PodGroup {key}", "a group that it is part of is not there")
        entity: QueuedPodGroupInfo | None = None
        for leaf in groups.leaf_keys(root):
            members = groups.members(leaf)
            for pod in members.unscheduled() if members is not None else ():
                found = self.scheduler.queue.find(pod)
                info = QueuedPodInfo(pod, self._clock.now() if found is None else found.timestamp)
                if entity is None:
                    entity = QueuedPodGroupInfo(root, info)
                else:
                    entity.insert(info)
        return entity

    async def _attempt_group(
        self, queued: QueuedPodGroupInfo, gates: tuple[Status, ...], *, preempts: bool
    ) -> GroupOutcome:
        assert self.scheduler.groups is not None
        watching = self._watching
        await self.scheduler.groups.try_group(queued, preempts=preempts)
        self._undo += [placed.undo.unwind for placed in self._binder.take()]
        attempt, watching.last_group = watching.last_group, None
        infos = () if attempt is None else attempt.members
        decided = {info.key: watching.decisions.pop(info.uid) for info in infos if info.uid in watching.decisions}
        return GroupOutcome(attempt, {key: replace(made, attempts=0) for key, made in decided.items()}, gates)


def _gate(plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
    """Ask a plugin whether it holds a pod back; one that raises does, as it would in the queue."""
    try:
        status = plugin.pre_enqueue(pod)
    except PLUGIN_FAULTS as fault:
        pass_on_interrupt(fault)
        status = Status.error(described(fault))
    return None if status is None else status.by(plugin.name)
