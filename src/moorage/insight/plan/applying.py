"""`plan apply`: carry out a plan through the eviction API, one step at a time.

The plan file records the progress, so that an interrupted step can be repeated. Before a step, its placements are
predicted for the current state of the cluster. After the step, the nodes of the replacements are compared with the
plan. If the cluster has changed, a new plan replaces the remaining steps.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import ApiError, Forbidden, InputError, NotFound, TooManyRequests
from moorage.common.user_files import not_writable, private_file
from moorage.insight.plan.goals import plan_from_data
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan, PlannedEviction, PlanProgress, PlanStep
from moorage.insight.plan.plan_run import MoveUnit, PlanRun, describe_cluster
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.sources import ClusterSource
from moorage.kube.api.meta import format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from moorage.kube.manifests import Document, to_documents
from moorage.scheduler.wiring.policy import Policy

POLL_SECONDS: Final = 0.5
SETTLE_SECONDS: Final = 5.0
DEFAULT_SECONDS: Final = 300.0
OpenSession = Callable[[Sequence[Document]], Session]
Lines = tuple[str, ...]
EqualNodes = Mapping[str, tuple[str, ...]]


def apply_plan_step(
    path: str, plan: Plan, source: ClusterSource, policy: Policy, *, is_dry_run: bool, seconds: float = DEFAULT_SECONDS
) -> "StepResult":
    """Carry out the next step of a plan in a file, or only check it. The progress is saved in the file."""
    connection = load_connection(source.kubeconfig, context=source.context)

    def save(current: Plan) -> None:
        target, text = Path(path), msgspec.json.format(msgspec.json.encode(current.as_data()), indent=2)
        try:
            if current.steps != plan.steps:
                with private_file(Path(f"{path}.previous")) as backup:
                    backup.write(target.read_bytes())
            with private_file(target) as file:
                file.write(text + b"\n")
        except OSError as error:
            raise not_writable(path, error) from error

    async def run() -> StepResult:
        async with ApiClient(connection) as client:
            open_session = partial(Session, policy=policy)
            applier = PlanApplier(client, open_session, now=time, save=save, seconds=seconds)
            return await (applier.describe(plan) if is_dry_run else applier.run_step(plan))

    try:
        return asyncio.run(run())
    except ApiError as error:
        raise InputError(connection.source, str(error) or type(error).__name__) from error


class StepResult(Struct, frozen=True):
    """The result of a step: the plan with its progress, and lines for the user; ``is_done`` if the step succeeded."""

    plan: Plan
    lines: tuple[str, ...]
    is_done: bool = True
    is_replanned: bool = False


class PlanApplier:
    """Carries out the steps of a plan. ``save`` stores the progress before and after each step."""

    def __init__(
        self,
        client: ApiClient,
        open_session: OpenSession,
        *,
        now: Callable[[], float],
        save: Callable[[Plan], None] = lambda _plan: None,
        seconds: float = DEFAULT_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._open_session = open_session
        self._now, self._save, self._seconds, self._sleep = now, save, seconds, sleep

    async def describe(self, plan: Plan) -> StepResult:
        """Check the next step, and write nothing."""
        with await self._read() as session:
            self._check_cluster(session, plan)
            progress = plan.progress or PlanProgress()
            if progress.done >= len(plan.steps):
                return StepResult(plan, ("all steps of the plan are done",))
            changes, _tied = self._find_changes(session, plan, plan.steps[progress.done])
        title = f"next: step {progress.done + 1} of {len(plan.steps)}; --step executes it"
        return StepResult(plan, (title, *changes), is_done=not changes)

    async def run_step(self, plan: Plan) -> StepResult:
        """Carry out the next step, or finish an interrupted step."""
        progress = plan.progress or PlanProgress()
        settled = self._now() + SETTLE_SECONDS
        while True:
            with await self._read() as session:
                self._check_cluster(session, plan)
                if progress.done >= len(plan.steps):
                    return StepResult(plan, ("all steps of the plan are done",))
                step, title = plan.steps[progress.done], f"step {progress.done + 1} of {len(plan.steps)}"
                changes, tied = ((), progress.tied) if progress.is_started else self._find_changes(session, plan, step)
                pods = self._find_pods(session, plan, step)
            if not changes:
                break
            if self._now() > settled:
                return await self._replan(plan, (f"{title}: the cluster has changed", *changes))
            # Controllers may still react to the previous step, for example by removing the taint of an uncordoned node.
            await self._sleep(POLL_SECONDS)
        if refusal := await self._try_permissions(step, pods):
            return StepResult(plan, (f"{title}: {refusal}",), is_done=False)
        if not progress.is_started:
            owners = {item.owner for item in step.evict if item.owner}
            existing = [pod.uid for pod in await self._client.list(Pod) if _owner(pod) in owners]
            progress = replace(progress, is_started=True, existing=tuple(existing), tied=tied)
            plan = replace(plan, progress=progress)
            self._save(plan)
        await self._set_cordons(step.cordon, True)
        deadline = self._now() + self._seconds
        for item in step.evict:
            if refusal := await self._evict(pods.get(item.pod), deadline):
                return StepResult(plan, (f"{title}: {refusal}; rerun the command later",), is_done=False)
        unready = await self._wait(step, pods, progress.existing, deadline)
        if unready:
            text = f"{title}: not ready after {self._seconds:g} s: {', '.join(unready)}; rerun the command later"
            return StepResult(plan, (text,), is_done=False)
        await self._set_cordons(step.uncordon, False)
        differences, notes = await self._compare(step, progress)
        plan = replace(plan, progress=PlanProgress(progress.done + 1))
        self._save(plan)
        is_last = plan.progress is not None and plan.progress.done == len(plan.steps)
        if differences and not is_last:
            return await self._replan(plan, (f"{title}: executed, but not as planned", *differences, *notes))
        result = f"{title}: done" if not differences else f"{title}: executed, but not as planned"
        return StepResult(plan, (result, *differences, *notes), is_done=not differences)

    async def _read(self) -> Session:
        read = await read_cluster(self._client)
        return self._open_session(list(to_documents(read.contents, source="the cluster")))

    @staticmethod
    def _check_cluster(session: Session, plan: Plan) -> None:
        current = describe_cluster(session).fingerprint
        if current != plan.cluster.fingerprint:
            problem = f"the plan is for another cluster ({plan.cluster.fingerprint}, this is {current})"
            raise InputError("plan apply", problem, hint="use --kubeconfig or --context, or make a new plan")

    def _find_pods(self, session: Session, plan: Plan, step: PlanStep) -> dict[str, Pod]:
        """Return the current pods of a step by their planned names. The replacement of a moved pod has another name."""
        by_uid = {pod.uid: pod for info in session.scheduler.cache.nodes for pod in info.pods.values()}
        original = {item.uid for planned in plan.steps for item in planned.evict}
        pods: dict[str, Pod] = {}
        for item in step.evict:
            pod = by_uid.get(item.uid)
            if pod is None and self._has_moved(plan, step, item):
                excluded = original | {matched.uid for matched in pods.values()}
                replacements = (candidate for candidate in by_uid.values() if candidate.uid not in excluded)
                pod = next(
                    (
                        candidate
                        for candidate in replacements
                        if (_owner(candidate), candidate.node_name) == (item.owner, item.source)
                    ),
                    None,
                )
            if pod is not None and not pod.is_terminating:
                pods[item.pod] = pod
        return pods

    @staticmethod
    def _has_moved(plan: Plan, step: PlanStep, item: PlannedEviction) -> bool:
        previous_steps = plan.steps[: plan.steps.index(step)]
        return any(eviction.pod == item.pod for earlier in previous_steps for eviction in earlier.evict)

    def _find_changes(self, session: Session, plan: Plan, step: PlanStep) -> tuple[Lines, EqualNodes]:
        """Repeat the prediction of a step on the current state. Return the differences, and nodes with equal scores."""
        pods = self._find_pods(session, plan, step)
        missing_pods = [item.pod for item in step.evict if item.pod not in pods]
        if missing_pods:
            return tuple(f"{name} no longer exists" for name in missing_pods), {}
        moved_items = [item for item in step.evict if pods[item.pod].node_name != item.source]
        if moved_items:
            return tuple(
                f"{item.pod} is on {pods[item.pod].node_name}, not on {item.source}" for item in moved_items
            ), {}
        with session.branch():
            run = PlanRun(session, _constraints(plan), lists_equals=True)
            unknown = [name for name in (*step.cordon, *step.uncordon) if name not in run.node_names()]
            if unknown:
                return tuple(f"node {name} no longer exists" for name in unknown), {}
            units: dict[str, MoveUnit] = {}
            for item in step.evict:
                unit = run.find_unit(pods[item.pod])
                units.setdefault(unit.key, unit)
            if exceeded := run.ledger.exceeded(run.ledger.count(pod for unit in units.values() for pod in unit.pods)):
                return tuple(f"the budget {name} allows only {run.ledger.allowed[name]}" for name in exceeded), {}
            predicted_step = run.take_step(
                [name for name in step.cordon if name not in run.cordoned], list(units.values())
            )
        by_name = {item.pod: item for item in predicted_step.evict}
        predicted = {item.pod: now for item in step.evict if (now := by_name.get(pods[item.pod].key)) is not None}
        changes = tuple(
            f"{item.pod} would now go to {now.node or 'no node'} instead of {item.node or 'no node'}"
            for item in step.evict
            if (now := predicted.get(item.pod)) is not None and not _is_same(now, item)
        )
        return changes, {name: (now.node, *now.tied) for name, now in predicted.items() if now.tied}

    async def _try_permissions(self, step: PlanStep, pods: dict[str, Pod]) -> str:
        """Send the first write of each kind as a dry run. Return a message if a budget forbids it."""
        nodes = (*step.cordon, *step.uncordon)
        try:
            for name in nodes[:1]:
                await self._patch_node(name, True, query="?dryRun=All")
        except Forbidden as error:
            hint = 'allow verb "patch" on resource "nodes" of apiGroup ""'
            raise InputError("plan apply", f"no permission to cordon nodes: {error}", hint=hint) from error
        namespaces = {pod.namespace: pod for pod in pods.values()}
        for namespace, pod in namespaces.items():
            try:
                await self._post_eviction(pod, dry_run=True)
            except Forbidden as error:
                hint = f'allow verb "create" on resource "pods/eviction" of apiGroup "" in namespace {namespace}'
                problem = f"no permission to evict pods in namespace {namespace}: {error}"
                raise InputError("plan apply", problem, hint=hint) from error
            except TooManyRequests as error:
                return f"{pod.key} cannot be evicted now: {error}; rerun the command later"
            except NotFound:
                continue
        return ""

    async def _set_cordons(self, names: Iterable[str], is_cordoned: bool) -> None:
        for name in names:
            await self._patch_node(name, is_cordoned)

    async def _patch_node(self, name: str, is_cordoned: bool, query: str = "") -> None:
        body = msgspec.json.encode({"spec": {"unschedulable": True if is_cordoned else None}})
        await self._client.request("PATCH", f"/api/v1/nodes/{name}{query}", body, MERGE_PATCH)

    async def _post_eviction(self, pod: Pod, *, dry_run: bool = False) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}} | ({"dryRun": ["All"]} if dry_run else {})
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        await self._client.request("POST", path, msgspec.json.encode(body))

    async def _evict(self, pod: Pod | None, deadline: float) -> str:
        """Evict a pod that still exists. Return why it cannot be evicted before the deadline."""
        while pod is not None:
            try:
                await self._post_eviction(pod)
            except NotFound:
                return ""
            except TooManyRequests as error:
                if self._now() > deadline:
                    return f"{pod.key} cannot be evicted: {error}"
                await self._sleep(POLL_SECONDS)
            except ApiError as error:
                return f"{pod.key} cannot be evicted: {error}"
            else:
                return ""
        return ""

    async def _wait(self, step: PlanStep, pods: dict[str, Pod], existing: Sequence[str], deadline: float) -> list[str]:
        """Wait until evicted pods are deleted and replacements are ready. Return the names of the missing ones."""
        evicted_uids = {pod.uid for pod in pods.values()}
        required = Counter(item.owner for item in step.evict if item.node and item.owner)
        while True:
            current_pods = await self._client.list(Pod)
            remaining_keys = [pod.key for pod in current_pods if pod.uid in evicted_uids]
            for owner, count in required.items():
                new = [pod for pod in _replacements(current_pods, owner, existing) if pod.node_name and _is_ready(pod)]
                if len(new) < count:
                    remaining_keys.append(f"{count - len(new)} of {count} replacements of {self._name(step, owner)}")
            if not remaining_keys or self._now() > deadline:
                return remaining_keys
            await self._sleep(POLL_SECONDS)

    @staticmethod
    def _name(step: PlanStep, owner: str) -> str:
        return next(item.pod for item in step.evict if item.owner == owner)

    async def _compare(self, step: PlanStep, progress: PlanProgress) -> tuple[Lines, Lines]:
        """Compare the nodes of the replacements with the plan. Return the differences, and notes about equal scores.

        Replacements of a controller are interchangeable. Among nodes with equal scores, the scheduler may choose any.
        After such a choice, the plan does not predict the nodes of the other pods of the step.
        """
        current_pods = await self._client.list(Pod)
        pending, moved_texts, notes = list[str](), list[str](), list[str]()
        for owner in dict.fromkeys(item.owner for item in step.evict if item.owner and item.recreated):
            items = [item for item in step.evict if item.owner == owner]
            replacements = _replacements(current_pods, owner, progress.existing)
            nodes = Counter(pod.node_name for pod in replacements if pod.node_name)
            misplaced = []
            for item in items:
                if nodes[item.node] > 0:
                    nodes[item.node] -= 1
                elif item.node:
                    misplaced.append(item)
            for item in misplaced:
                equals = {*item.tied, *progress.tied.get(item.pod, ())}
                remaining_nodes = [name for name in nodes if nodes[name] > 0]
                node = next(
                    (name for name in remaining_nodes if name in equals), remaining_nodes[0] if remaining_nodes else ""
                )
                nodes[node] -= 1
                text = f"the replacement of {item.pod} is on {node or 'no node'}"
                if node in equals:
                    notes.append(f"{text}, which had the same score as {item.node}")
                else:
                    (moved_texts if node else pending).append(f"{text}, not on {item.node}")
        if notes:
            return tuple(pending), (*notes, *moved_texts)
        return (*pending, *moved_texts), ()

    async def _replan(self, plan: Plan, lines: tuple[str, ...]) -> StepResult:
        """Undo temporary cordons, and replace the remaining steps by a new plan."""
        completed = plan.progress.done if plan.progress else 0
        cordoned = {node.name for node in await self._client.list(Node) if node.spec.unschedulable}
        own = {name for step in plan.steps[: completed + 1] for name in step.cordon} & cordoned
        temporary = [name for step in plan.steps[completed:] for name in step.uncordon if name in own]
        await self._set_cordons(dict.fromkeys(temporary), False)
        arguments = dict(plan.arguments)
        if "rolling" in arguments:
            nodes = dict.fromkeys(name for step in plan.steps[completed:] for name in (*step.cordon, *step.uncordon))
            arguments = {key: value for key, value in arguments.items() if key != "selector"} | {"nodes": list(nodes)}
        with await self._read() as session:
            fresh = plan_from_data(session, plan.goal, arguments, reads_files=True)
            cluster = replace(describe_cluster(session), taken_at=format_time(self._now()))
        fresh = replace(fresh, cluster=cluster)
        self._save(fresh)
        return StepResult(fresh, lines, is_done=False, is_replanned=True)


def _constraints(plan: Plan) -> Constraints:
    arguments = {name: value for name, value in plan.arguments.items() if name in ("force", "allowPending")}
    return msgspec.convert(arguments, Constraints)


def _owner(pod: Pod) -> str:
    """Return the UID of the controller of a pod."""
    owner = pod.metadata.controller
    return "" if owner is None else owner.uid


def _is_same(now: PlannedEviction, item: PlannedEviction) -> bool:
    """Return whether two predictions allow the same node. The scheduler chooses at random among equal scores."""
    return now.node == item.node or now.node in item.tied or item.node in now.tied


def _replacements(pods: Iterable[Pod], owner: str, existing: Sequence[str]) -> list[Pod]:
    """Return the pods of a controller that were created since the step began."""
    previous_uids = set(existing)
    new = (pod for pod in pods if _owner(pod) == owner and pod.uid not in previous_uids)
    return [pod for pod in new if not pod.is_terminating and not pod.is_finished]


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"
