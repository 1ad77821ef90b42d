"""Forecast when a pod, a job or a pod group starts: many possible futures, simulated with the real scheduler."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from statistics import median
from time import monotonic
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster import RUN_FOR
from moorage.common.durations import parse_duration
from moorage.common.errors import InputError, MoorageError
from moorage.insight.explain.groups import list_active_pods
from moorage.insight.explain.pods import explain_pod
from moorage.insight.forecast.forecast_model import (
    Dependency,
    Forecast,
    QueuedStart,
    QueueForecast,
    SoonerChange,
    StartInterval,
)
from moorage.insight.forecast.futures import Future, FutureCluster, PlayedFuture
from moorage.insight.forecast.lifetimes import PodTraits, quantiles
from moorage.insight.forecast.outlook import UNKNOWN_SECONDS, KnownPod, Outlook, PastPod, find_size, play_futures
from moorage.insight.forecast.recalibration import Recalibration
from moorage.insight.whatif.edits import ObjectId, PatchObject, decode_edit, put
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import (
    NamedWorkload,
    belongs_to_workload,
    check_pod_count,
    create_gang,
    create_workload_pod,
    find_workload,
)
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.container import Container
from moorage.kube.api.gpu_sharing import GPU_MILLI, WHOLE_GPU
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.api.quantity import nano_value

DEFAULT_DRAWS: Final = 50
DEFAULT_HORIZON: Final = 7 * 86_400.0
CHANGE_DRAWS: Final = 20
MAX_DEPENDENCIES: Final = 10
MAX_CHANGES: Final = 6
FEW_DRAWS: Final = 10
"""With fewer simulated futures, an interval is rough."""
EXPLAIN_SECONDS: Final = 3.0
ENDING: Final = ("OnFailure", "Never")
SERVICES: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")
PERMANENT: Final = ("DaemonSet", "Node")
"""Controllers of pods that run as long as their node exists."""
SOON: Final = 1.0


class ForecastOptions(Struct, frozen=True, kw_only=True):
    """Options of a forecast."""

    class_label: str = ""
    """The label that names the class of a pod; the namespace by default."""
    past: Sequence[PastPod] = ()
    past_name: str = ""
    draws: int = DEFAULT_DRAWS
    horizon: float = DEFAULT_HORIZON
    now: float | None = None
    """The time of the forecast. By default, when the cluster was read."""
    seed: int = 1
    with_changes: bool = True
    recalibration: Recalibration | None = None
    """Earlier forecasts, which correct this one."""
    progress: Callable[[int, int], None] = lambda _done, _total: None


def check_moment(session: Session, now: float) -> None:
    """Raise InputError if a pod was created or started after the time of the forecast."""
    for pod in list_active_pods(session):
        for event, moment in (("creation", pod.metadata.creation_timestamp), ("start", pod.status.start_time)):
            if moment is not None and parse_time(moment) > now:
                problem = f"{format_time(now)} is before the {event} of pod {pod.key} ({moment})"
                raise InputError("--now", problem, hint="write a later time")


def forecast_start(session: Session, name: str, namespace: str, options: ForecastOptions) -> Forecast:
    """Forecast when a pod (``NAME`` or ``NAMESPACE/NAME``) or a workload (``job/NAME``) starts."""
    workload = find_workload(session, name, namespace)
    with session.branch():
        if workload is not None:
            pods = _complete_pods(session, workload)
            title = f"{workload.id.kind.lower()}/{workload.id.name}"
        else:
            key = name.removeprefix("pod/")
            pods = [session.pod(key if "/" in key else f"{namespace}/{key}")]
            title = pods[0].key
        if not pods:
            raise InputError(title, "has no pods", hint="create its pods first; a pod group does not create them")
        if all(pod.is_finished for pod in pods):
            raise InputError(title, f"has already ended ({pods[0].status.phase})")
        return _Forecaster(session, title, pods, workload, options).run()


def forecast_queue(
    session: Session, options: ForecastOptions, *, namespace: str = "", seconds: float = inf
) -> QueueForecast:
    """Forecast when each pending pod of a namespace starts; by default, of all namespaces.

    After a number of seconds, no further futures are simulated. Gated pods have no interval. Pods of other schedulers
    are omitted.
    """
    end = monotonic() + seconds
    with session.branch():
        pods = [
            pod
            for pod in list_active_pods(session)
            if not pod.node_name
            and not pod.is_terminating
            and pod.scheduler_name in session.scheduler.runners
            and namespace in ("", pod.namespace)
        ]
        gated = [pod for pod in pods if pod.spec.scheduling_gates]
        ready = [pod for pod in pods if not pod.spec.scheduling_gates]
        return _Forecaster(session, "", ready, None, options).run_queue(gated, end)


def _complete_pods(session: Session, workload: NamedWorkload) -> list[Pod]:
    """Return the active pods of a workload. Create missing pods from its template."""
    if workload.id.kind == "PodGroup":
        return [pod for pod in list_active_pods(session) if pod.group_key == workload.id.key]
    title = f"{workload.id.kind.lower()}/{workload.id.name}"
    own = [pod for pod in list_active_pods(session) if belongs_to_workload(pod, workload)]
    check_pod_count(title, workload.wanted)
    own += create_gang(session, workload, title) if not own else []
    while len(own) < workload.wanted:
        own.append(session.pod(create_workload_pod(session, workload, len(own))))
    return own


class _Forecaster:
    """The forecast of a subject, in a branch of a session."""

    def __init__(
        self,
        session: Session,
        title: str,
        pods: Sequence[Pod],
        workload: NamedWorkload | None,
        options: ForecastOptions,
    ) -> None:
        self._session, self._title, self._workload, self._options = session, title, workload, options
        self._now = session.objects.given.now if options.now is None else options.now
        self._pending = [pod for pod in pods if not pod.node_name and not pod.is_finished]
        self._running = [pod for pod in pods if pod.node_name]
        self._required_count = self._count_needed(len(pods))
        self._gates = {
            str(gate) for pod in self._pending for gate in (item.name for item in pod.spec.scheduling_gates or ())
        }
        self._past = adapt_gpus(options.past, session.objects.all())
        self._classes = {item.traits.group for item in options.past if item.seconds is not None and item.ended}

    def _count_needed(self, count: int) -> int:
        """Return how many pending pods have to start: of a gang, the minimum; otherwise all."""
        if self._workload is None or self._workload.id.kind != "PodGroup":
            return len(self._pending)
        gang = (self._workload.spec.get("schedulingPolicy") or {}).get("gang") or {}
        return min(len(self._pending), int(gang.get("minCount") or count) - len(self._running))

    def run(self) -> Forecast:
        """Forecast the start."""
        forecast = Forecast(subject=self._title, now=self._now, state="pending", horizon=self._options.horizon)
        if self._required_count <= 0:
            times = (pod.status.start_time or pod.metadata.creation_timestamp or "" for pod in self._running)
            return replace(forecast, state="running", started_at=max(times, default=""))
        outlook = self._make_outlook()
        cluster = self._open_cluster(outlook)
        try:
            if self._is_impossible(cluster, outlook):
                return replace(forecast, state="never", reason=self._explain_never(), assumptions=self._assume(outlook))
            played = self._play(cluster, outlook, self._options.draws, self._options.progress)
        finally:
            cluster.close()
        starts = [future.started for future in played]
        start = self._correct(self._summarize(starts))
        return replace(
            forecast,
            state="gated" if self._gates else "pending",
            start=start,
            censored=round(starts.count(None) / len(starts), 3),
            draws=len(played),
            assumptions=self._assume(outlook),
            depends_on=tuple(self._find_dependencies(played)),
            sooner=tuple(self._find_sooner(starts)) if self._options.with_changes and start.p50 > SOON else (),
        )

    def run_queue(self, gated: Sequence[Pod], end: float) -> QueueForecast:
        """Forecast the starts of all pending pods, until a time of the monotonic clock."""
        options, outlook = self._options, self._make_outlook()
        own = frozenset(pod.uid for pod in self._pending)
        cluster = self._open_cluster(outlook)
        played: list[PlayedFuture] = []
        reachable: dict[str, float] = {}
        try:
            reachable = cluster.play(self._end_all(outlook), own, len(own), inf, end).starts
            while reachable and len(played) < options.draws and monotonic() < end:
                options.progress(len(played), options.draws)
                future = outlook.draw(options.seed, len(played))
                played.append(cluster.play(future, own, len(reachable), options.horizon, end))
        except TimeoutError:
            reachable = reachable or dict.fromkeys((pod.key for pod in self._pending), 0.0)
        finally:
            cluster.close()
        if reachable and not played:
            message = f"simulating {len(own)} pending pods took longer than the time limit"
            raise InputError("the queue", message, hint="allow more time, or forecast one pod")
        starts = [self._describe_start(pod, pod.key in reachable, played) for pod in self._pending]
        starts.sort(key=lambda item: inf if item.start is None else item.start.p50)
        assumptions = list(self._assume(outlook))
        if reachable and len(played) < min(FEW_DRAWS, options.draws):
            futures = "1 future was" if len(played) == 1 else f"{len(played)} futures were"
            assumptions.insert(0, f"Only {futures} simulated in the time limit: the intervals are rough.")
        return QueueForecast(
            now=self._now,
            horizon=options.horizon,
            draws=len(played),
            pods=(*starts, *(self._describe_queued(pod, "gated") for pod in gated)),
            assumptions=tuple(assumptions),
        )

    def _describe_start(self, pod: Pod, is_reachable: bool, played: Sequence[PlayedFuture]) -> QueuedStart:
        times = [future.starts.get(pod.key) for future in played]
        if not is_reachable and all(time is None for time in times):
            return self._describe_queued(pod, "never")
        start = self._correct(self._summarize(times))
        return self._describe_queued(pod, "pending", start, round(times.count(None) / len(times), 3))

    def _describe_queued(
        self, pod: Pod, state: str, start: StartInterval | None = None, censored: float = 0.0
    ) -> QueuedStart:
        label = self._options.class_label
        group = pod.labels.get(label, "") if label else pod.namespace
        return QueuedStart(pod=pod.key, state=state, start=start, censored=censored, priority=pod.priority, group=group)

    def _summarize(self, starts: Iterable[float | None]) -> StartInterval:
        """Return the quantiles of simulated starts. ``None`` is a start after the horizon."""
        seconds = [self._options.horizon if start is None else start for start in starts]
        return StartInterval(*(round(number, 1) for number in quantiles(seconds, (0.1, 0.5, 0.9))))

    def _correct(self, simulated: StartInterval) -> StartInterval:
        """Correct an uncertain interval by earlier forecasts. Certain and censored bounds remain."""
        recalibration, horizon = self._options.recalibration, self._options.horizon
        if recalibration is None or not recalibration.forecasts or simulated.p90 - simulated.p10 < SOON:
            return simulated
        interval = recalibration.correct(simulated, recalibration.until).interval
        bounds = zip(
            (simulated.p10, simulated.p50, simulated.p90), (interval.p10, interval.p50, interval.p90), strict=True
        )
        return StartInterval(
            *(horizon if before >= horizon else round(min(after, horizon), 1) for before, after in bounds)
        )

    # ── the current state ────────────────────────────────────────────────────────────────────────────────────────────

    def _list_objects(self) -> list[KubeObject]:
        """Return the objects of the session; pending pods in the order of their creation, the subject without gates."""
        objects = [*self._session.objects.all(), *self._session.objects.given.custom_objects()]
        pending = [obj for obj in objects if isinstance(obj, Pod) and not obj.node_name]
        order = {pod.uid: number for number, pod in enumerate(pending)}
        pending.sort(key=lambda pod: (pod.metadata.creation_timestamp or "~", order[pod.uid]))
        own = {pod.uid for pod in self._pending}
        return [
            *(obj for obj in objects if not (isinstance(obj, Pod) and not obj.node_name)),
            *(self._admit(pod) if pod.uid in own else pod for pod in pending),
        ]

    def _admit(self, pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, scheduling_gates=())) if pod.spec.scheduling_gates else pod

    def _open_cluster(self, outlook: Outlook) -> FutureCluster:
        objects = self._list_objects()
        if not self._session.honors_nominations:
            objects = [_without_nomination(obj) for obj in objects]
        later = [item.pod for item in outlook.arrivals]
        return FutureCluster(self._session.given_policy, objects, self._now, later)

    def _make_outlook(self) -> Outlook:
        pods = [
            self._describe(obj) for obj in self._session.objects.all() if isinstance(obj, Pod) and not obj.is_finished
        ]
        return Outlook(pods, self._past)

    def _describe(self, pod: Pod) -> KnownPod:
        """Return the known duration of a pod, with its source."""
        content = self._session.objects.content(ObjectId("Pod", pod.namespace, pod.name))
        spec, metadata = content.get("spec") or {}, content.get("metadata") or {}
        annotation = (metadata.get("annotations") or {}).get(RUN_FOR)
        duration = None
        if annotation:
            duration = parse_duration(str(annotation), where=f"pod {pod.key}, annotation {RUN_FOR}")
        limit = spec.get("activeDeadlineSeconds")
        status = content.get("status") or {}
        started = status.get("startTime") or metadata.get("creationTimestamp") if pod.node_name else None
        label = self._options.class_label
        traits = PodTraits(pod.labels.get(label, "") if label else pod.namespace, find_size(pod))
        controller = pod.metadata.controller
        owner = "" if controller is None else controller.kind
        is_known_class = traits.group in self._classes and owner not in PERMANENT
        ends = pod.spec.restart_policy in ENDING if owner not in SERVICES else False
        return KnownPod(
            pod,
            traits,
            max(0.0, self._now - parse_time(str(started))) if started else 0.0,
            duration,
            float(limit) if isinstance(limit, int | float) and limit > 0 else inf,
            ends or (is_known_class and (owner not in SERVICES or bool(label and traits.group))),
        )

    def _play(
        self,
        cluster: FutureCluster,
        outlook: Outlook,
        draws: int,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> list[PlayedFuture]:
        options = self._options
        subject = frozenset(pod.uid for pod in self._pending)
        settings: dict[str, Any] = {"horizon": options.horizon, "seed": options.seed, "progress": progress}
        return play_futures(cluster, outlook, subject, self._required_count, draws=draws, **settings)

    # ── never ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_impossible(self, cluster: FutureCluster, outlook: Outlook) -> bool:
        """Return whether the subject does not start even if all pods that can end end immediately."""
        own = frozenset(pod.uid for pod in self._pending)
        return cluster.play(self._end_all(outlook), own, self._required_count, inf).started is None

    def _end_all(self, outlook: Outlook) -> Future:
        """Return the future in which all pods that can end end immediately."""
        ending = {item.pod.uid for item in outlook.pods if item.ends or item.seconds is not None or item.limit < inf}
        ends = dict.fromkeys(ending - {pod.uid for pod in self._pending}, SOON)
        return Future(ends, lambda pod: SOON if pod.uid in ending else None)

    def _explain_never(self) -> str:
        """Return the message of the scheduler, and why waiting does not help."""
        pod = self._pending[0]
        try:
            if pod.group_key and self._session.scheduler.cache.groups is not None:
                message = self._session.try_group(pod.group_key).message
            else:
                attempt = self._session.try_pod(pod.key)
                message = "; ".join(status.message for status in attempt.gates) or attempt.decision.message
        except InputError as error:
            message = f"{error.where}: {error.problem}"
        message = (message or "the scheduler chose no node").rstrip(".")
        names = {profile.scheduler_name for profile in self._session.given_policy.config.profiles}
        if pod.spec.scheduler_name not in names:
            return f"{message}. Another scheduler has to place it, which is not simulated."
        return f"{message}. It does not fit even after all pods that can end have ended."

    # ── what the forecast depends on ─────────────────────────────────────────────────────────────────────────────────

    def _find_dependencies(self, played: Sequence[PlayedFuture]) -> Iterator[Dependency]:
        share = round(1.0, 3)
        for gate in sorted(self._gates):
            yield Dependency(share, 0.0, f"the scheduling gate {gate} is removed", event=f"gate {gate} is removed")
        own = {pod.key for pod in self._pending}
        pod_keys = {pod.key for pod in self._session.objects.all() if isinstance(pod, Pod)}
        moments: dict[tuple[str, str], list[float]] = {}
        for future in played:
            for key, at in future.causes.items():
                moments.setdefault((key, "ends"), []).append(at)
            for key, at in future.starts.items():
                if key not in own:
                    moments.setdefault((key, "is scheduled"), []).append(at)
        dependencies = [item for item in moments.items() if item[0][0] in pod_keys]
        dependencies.sort(key=lambda item: (-len(item[1]), item[0][1], median(item[1])))
        for (key, event), times in dependencies[:MAX_DEPENDENCIES]:
            yield Dependency(round(len(times) / len(played), 3), round(median(times), 1), f"{key} {event}", pod=key)

    def _assume(self, outlook: Outlook) -> tuple[str, ...]:
        """Return the assumptions, most important first."""
        return (
            *self._assume_ends(outlook),
            *self._assume_queue(outlook),
            "Nodes do not change. Pending pods were queued in the order of their creation.",
        )

    def _assume_ends(self, outlook: Outlook) -> Iterator[str]:
        """Yield the sources of the ends of running pods."""
        options = self._options
        running_pods = [item for item in outlook.pods if item.pod.node_name]
        total = f"{len(running_pods)} running {'pod' if len(running_pods) == 1 else 'pods'}"
        exact = sum(1 for item in running_pods if item.seconds is not None)
        limited = sum(1 for item in running_pods if item.seconds is None and item.limit < inf)
        estimated = [item for item in running_pods if item.seconds is None and item.limit == inf and item.ends]
        endless = len(running_pods) - exact - limited - len(estimated)
        if estimated and outlook.lifetimes.ended:
            label = f"the label {options.class_label}" if options.class_label else "their namespace"
            yield (
                f"The ends of {len(estimated)} of {total} are drawn from {outlook.lifetimes.ended} recorded runs in "
                f"{options.past_name or 'the history'}, by {label} and their requests, given their current age."
            )
        elif estimated:
            yield (
                f"{'The duration' if len(estimated) == 1 else 'The durations'} of {len(estimated)} of {total} "
                f"{'is' if len(estimated) == 1 else 'are'} unknown. Each of these pods has an assumed 50% chance of "
                "reaching twice its current age. For better estimates, pass --history FILE."
            )
        if limited:
            latest = " at the latest" if outlook.lifetimes.ended else ""
            yield (
                f"{limited} of {total} {'ends at its' if limited == 1 else 'end at their'} "
                f"activeDeadlineSeconds{latest}."
            )
        if exact:
            yield f"{exact} of {total} {'ends' if exact == 1 else 'end'} as the annotation {RUN_FOR} states."
        if endless:
            yield f"{endless} of {total} {'does' if endless == 1 else 'do'} not end, such as pods of services."

    def _assume_queue(self, outlook: Outlook) -> Iterator[str]:
        """Yield the assumptions about pending and future pods."""
        options = self._options
        if self._gates:
            gates = "The scheduling gate is" if len(self._gates) == 1 else "The scheduling gates are"
            yield f"{gates} removed now: {', '.join(sorted(self._gates))}."
        if len(self._pending) > 1 and self._title:
            count = (
                f"{self._required_count} of {len(self._pending)}"
                if self._required_count < len(self._pending)
                else f"all {self._required_count}"
            )
            yield f"The start of {self._title} is when {count} pending pods have a node."
        own = {pod.uid for pod in self._pending} if self._title else set()
        if not outlook.lifetimes.ended and any(
            not item.pod.node_name and item.seconds is None and item.pod.uid not in own for item in outlook.pods
        ):
            subject = "Other pending" if self._title else "Pending"
            runs = "as long as one of the running pods, drawn at random"
            if not any(item.pod.node_name and item.ends for item in outlook.pods):
                runs = f"for {UNKNOWN_SECONDS / 3600:g} h, because no pod runs and there is no history"
            yield f"{subject} pods run {runs}."
        if outlook.arrivals:
            arrived = len(outlook.arrivals)
            pods = "1 pod" if arrived == 1 else f"{arrived} pods"
            yield f"Arrivals of other pods are replayed from the {pods} of the history."
        else:
            yield "No other pods arrive."
        if options.recalibration is not None:
            checks = len(options.recalibration.forecasts)
            yield (
                f"The interval is corrected by {checks} forecasts of starts in a replay of {options.past_name}."
                if checks
                else f"The interval is not corrected: no pod waits in a replay of {options.past_name} on these nodes."
            )
        elif outlook.lifetimes.ended:
            yield "The interval is not corrected by forecasts of past starts."

    # ── what would make it earlier ──────────────────────────────────────────────────────────────────────────────────

    def _find_sooner(self, starts: Sequence[float | None]) -> Iterator[SoonerChange]:
        """Retry the first futures with each change. Keep changes with an earlier median start, and correct it."""
        draws = min(CHANGE_DRAWS, len(starts))
        before = min(self._summarize(starts[:draws]).p50, self._summarize(starts).p50)
        changes = []
        for text, edits in self._list_changes():
            with self._session.branch():
                try:
                    self._session.apply(*(decode_edit(edit) for edit in edits))
                    interval = self._try_change(draws)
                except MoorageError:
                    continue  # the API server would reject the change
            if interval.p50 < before - max(SOON, 0.05 * before):
                changes.append(SoonerChange(text, edits, self._correct(interval).p50))
        yield from sorted(changes, key=lambda change: change.p50)[:MAX_CHANGES]

    def _try_change(self, draws: int) -> StartInterval:
        variant = _Forecaster(
            self._session,
            self._title,
            [self._session.pod(pod.key) for pod in (*self._pending, *self._running)],
            self._workload,
            self._options,
        )
        outlook = variant._make_outlook()
        cluster = variant._open_cluster(outlook)
        try:
            played = variant._play(cluster, outlook, draws)
        finally:
            cluster.close()
        return self._summarize([future.started for future in played])

    def _list_changes(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        objects = self._session.objects
        contents = {pod.key: objects.content(ObjectId("Pod", pod.namespace, pod.name)) for pod in self._pending}
        tested_kinds: set[str] = set()
        if len(self._pending) == 1 and not self._gates:
            explanation = explain_pod(self._session, self._pending[0].key, seconds=EXPLAIN_SECONDS)
            for change in explanation.changes[:MAX_CHANGES]:
                if not any("config" in edit for edit in change.edits):
                    tested_kinds.add(change.kind)
                    yield change.text, change.edits
        classes = [obj for obj in objects.all() if isinstance(obj, PriorityClass)]
        highest = max(classes, key=lambda item: item.value, default=None)
        most = max(pod.priority for pod in self._pending)
        if highest is not None and highest.value > most and "priority" not in tested_kinds:
            operations = {
                key: [
                    put(content, ("spec", "priorityClassName"), highest.name),
                    *({"op": "remove", "path": "/spec/priority"} for _ in range("priority" in content["spec"])),
                ]
                for key, content in contents.items()
            }
            yield f"Set the priority class {highest.name} ({highest.value})", _patch(operations)
        smaller = {key: list(_halve_requests(content)) for key, content in contents.items()}
        if all(smaller.values()):
            yield "Halve the requests", _patch(smaller)


def _patch(operations: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        PatchObject(ObjectId("Pod", *key.split("/", 1)), tuple(items), must_replace=True).as_data()
        for key, items in operations.items()
    ]


def _halve_requests(content: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for index, container in enumerate((content.get("spec") or {}).get("containers") or ()):
        resources = container.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, quantity in (resources.get(kind) or {}).items():
                amount = nano_value(quantity) // 2
                unit = 10**6 if name == "cpu" else 10**9
                value = f"{amount // unit}m" if name == "cpu" else str(amount // unit)
                if amount >= unit:
                    yield put(content, ("spec", "containers", index, "resources", kind, name), value)


def adapt_gpus(past: Sequence[PastPod], objects: Iterable[KubeObject]) -> Sequence[PastPod]:
    """Convert GPU requests of a trace to the GPU resource of the cluster: traces count thousandths of any GPU."""
    resources = {name for obj in objects if isinstance(obj, Node) for name in obj.allocatable}
    gpus = sorted(name for name in resources if name.endswith("/gpu"))
    if GPU_MILLI in resources or not gpus:
        return past
    specs: dict[int, PodSpec] = {}
    adapted = []
    for item in past:
        if GPU_MILLI in item.pod.requests:
            spec = item.pod.spec
            if id(spec) not in specs:
                specs[id(spec)] = replace(
                    spec, containers=tuple(_with_gpus(container, gpus[0]) for container in spec.containers)
                )
            pod = replace(item.pod, spec=specs[id(spec)])
            item = replace(item, pod=pod, traits=replace(item.traits, size=find_size(pod)))  # noqa: PLW2901
        adapted.append(item)
    return adapted


def _with_gpus(container: Container, resource: str) -> Container:
    requests = dict(container.resources.requests)
    milli = nano_value(requests.pop(GPU_MILLI, 0)) // 10**9
    if milli:
        requests[resource] = -(-milli // WHOLE_GPU)
    return replace(container, resources=replace(container.resources, requests=requests))


def _without_nomination(obj: KubeObject) -> KubeObject:
    if isinstance(obj, Pod) and obj.status.nominated_node_name:
        return replace(obj, status=replace(obj.status, nominated_node_name=""))
    return obj
