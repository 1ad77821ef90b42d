"""Fake kubelets: they report that pods start, run, end, and stop on deletion.

Annotations of a pod configure its lifecycle, with durations such as ``500ms``, ``2m`` or plain seconds:

- ``moorage.io/start-delay``: how long its containers take to start;
- ``moorage.io/run-for``: how long they run. The default is a few seconds for pods that are not restarted (in a
  simulation only for pods of jobs), and no limit for other pods;
- ``moorage.io/exit-code``: their exit code. The pod fails unless it is 0;
- ``moorage.io/stop-delay``: how long they take to stop, at most the grace period.

Every image exists, except images with the tag ``non-existent``: their pods never start.

The annotation ``moorage.io/fail: "true"`` on a node stops its heartbeats and its pods' status until it is removed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import to_builtins

from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_ready
from moorage.common.clock import Clock
from moorage.common.durations import parse_duration
from moorage.common.errors import InputError
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data

START_DELAY: Final = "moorage.io/start-delay"
RUN_FOR: Final = "moorage.io/run-for"
EXIT_CODE: Final = "moorage.io/exit-code"
STOP_DELAY: Final = "moorage.io/stop-delay"
FAIL: Final = "moorage.io/fail"
MISSING_TAG: Final = ":non-existent"
HOST_IP: Final = "127.0.0.1"
"""All fake nodes are on this machine."""
FAKE_LABEL: Final = "moorage.io/fake"
"""Label of the nodes of fake kubelets. The API server may also have real nodes."""


@dataclass(frozen=True, slots=True)
class KubeletPace:
    """Default durations of a pod's lifecycle in seconds. ``None`` means no limit.

    ``run`` applies to pods that are not restarted, ``run_job`` to such pods of jobs.
    """

    start: float = 0.5
    run: float | None = 5.0
    stop: float = 0.5
    run_job: float | None = 5.0


class Kubelet(BaseController):
    """Runs the pods of every fake node."""

    name = "kubelets"
    kinds = (Pod, Node)

    def __init__(self, clock: Clock, pace: KubeletPace | None = None, *, runs_every_node: bool = False) -> None:
        super().__init__(clock)
        self._runs_every_node = runs_every_node
        self._pace = pace or KubeletPace()
        self._since: dict[str, tuple[str, float]] = {}
        self._missed: set[str] = set()

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the key of a pod, or of all pods of a node that failed, recovered, or arrived after its pods."""
        if isinstance(obj, Pod):
            if cache[Pod].get(obj.key) is None:
                self._since.pop(obj.uid, None)
            return (obj.key,) if obj.node_name else ()
        node = cache[Node].get(obj.name)
        if node is not None and obj.name in self._missed:
            self._missed.remove(obj.name)
        elif node is not None and FAIL not in obj.annotations and FAIL not in node.annotations:
            return ()
        return [pod.key for pod in cache[Pod].on_node(obj.name)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Return the next step of a pod's lifecycle, or a requeue until it is due."""
        pod = cache[Pod].get(key)
        if pod is None or not pod.node_name:
            return ()
        node = cache[Node].get(pod.node_name)
        if node is None:
            self._missed.add(pod.node_name)
            return ()
        if not (self._runs_every_node or FAKE_LABEL in node.labels) or is_silent(node):
            return ()
        state, now = "Stopping" if pod.is_terminating else pod.status.phase, self._clock.now()
        entry = self._since.get(pod.uid)
        if entry is None or entry[0] != state:
            # Timestamps in the API have only whole seconds.
            entry = self._since[pod.uid] = (state, now)
        return next_step(pod, self._pace, since=entry[1], now=now)


def is_silent(node: Node) -> bool:
    """Return whether a node is annotated to fail."""
    return node.annotations.get(FAIL, "") not in ("", "false")


def next_step(pod: Pod, pace: KubeletPace, *, since: float, now: float) -> Iterator[ControllerAction]:
    """Yield the next step of a pod; ``since`` is when it entered its current state."""
    if pod.is_terminating:
        grace = pod.metadata.deletion_grace_period_seconds
        stop_delay = read_duration(pod.annotations, STOP_DELAY, pace.stop)
        delay = 0.0 if pod.is_finished else min(stop_delay, stop_delay if grace is None else float(grace))
        yield from _when_due(since + delay, now, lambda: Delete(pod, grace=0))
    elif pod.status.phase in ("", "Pending"):
        delay = read_duration(pod.annotations, START_DELAY, pace.start)
        if not any(container.image.endswith(MISSING_TAG) for container in pod.spec.containers):
            yield from _when_due(since + delay, now, lambda: Patch(pod, {"status": running(pod, now)}, "status"))
        elif pod.status.start_time is None:
            yield from _when_due(since + delay, now, lambda: Patch(pod, {"status": without_image(pod, now)}, "status"))
    elif pod.status.phase == "Running":
        if not is_ready(pod):
            yield Patch(pod, {"status": running(pod, now)}, "status")
        owner, lifetime = pod.metadata.controller, None
        if RUN_FOR in pod.annotations:
            lifetime = read_duration(pod.annotations, RUN_FOR, pace.run or 0.0)
        elif pod.spec.restart_policy in ("Never", "OnFailure"):
            lifetime = pace.run_job if owner is not None and owner.kind == "Job" else pace.run
        if lifetime is not None:
            yield from _when_due(since + lifetime, now, lambda: Patch(pod, {"status": terminated(pod, now)}, "status"))


def _when_due(moment: float, now: float, action: Callable[[], ControllerAction]) -> Iterator[ControllerAction]:
    yield RequeueAfter(moment - now) if moment > now else action()


def pod_address(pod: Pod) -> str:
    """Return the stable and unique address of a pod that runs on a fake node."""
    number = int.from_bytes(pod.uid.encode()[-6:], "big") % 0xFFFF00 + 1
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def running(pod: Pod, now: float) -> Data:
    """Return the status of a pod with started containers."""
    moment = format_time(now)
    state = {"running": {"startedAt": moment}}
    address = pod_address(pod)
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or moment,
        "conditions": _conditions(pod, "True", moment),
        "containerStatuses": _containers(pod, state, is_ready=True),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
    }


def without_image(pod: Pod, now: float) -> Data:
    """Return the status of a pod that cannot start because an image is missing."""
    moment = format_time(now)
    waiting_state = {"waiting": {"reason": "ErrImagePull", "message": "fake nodes have no image with this tag"}}
    return {
        "phase": "Pending",
        "startTime": moment,
        "conditions": _conditions(pod, "False", moment, reason="ContainersNotReady"),
        "containerStatuses": _containers(pod, waiting_state, is_ready=False),
    }


def terminated(pod: Pod, now: float) -> Data:
    """Return the status of a pod with terminated containers."""
    moment = format_time(now)
    code = pod.annotations.get(EXIT_CODE, "0")
    is_success = code.strip() == "0"
    reason = "Completed" if is_success else "Error"
    exit_code = number if (number := to_int64(code.strip())) is not None and -(2**31) <= number < 2**31 else 1
    state = {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": pod.status.start_time or moment,
            "finishedAt": moment,
        }
    }
    return {
        "phase": "Succeeded" if is_success else "Failed",
        "conditions": _conditions(pod, "False", moment),
        "containerStatuses": _containers(pod, state, is_ready=False),
    }


def _conditions(pod: Pod, ready: str, moment: str, reason: str = "PodCompleted") -> list[Data]:
    """Return all conditions of a pod, including foreign ones: a merge patch replaces the entire list."""
    own = {"Initialized": "True", "Ready": ready, "ContainersReady": ready, "PodReadyToStartContainers": "True"}
    if pod.condition("PodScheduled") is None:
        # The pod was created with a node name, without a scheduler.
        own["PodScheduled"] = "True"
    conditions: list[Data] = [to_builtins(item) for item in pod.status.conditions if item.type not in own]
    for kind, status in own.items():
        current = pod.condition(kind)
        changed_at = current.last_transition_time if current is not None and current.status == status else moment
        explanation = {"reason": reason} if status == "False" else {}
        conditions.append({"type": kind, "status": status, "lastTransitionTime": changed_at, **explanation})
    return conditions


def _containers(pod: Pod, state: Data, *, is_ready: bool) -> list[Data]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": f"sha256:{container.image}",
            "containerID": f"fake://{pod.uid}/{container.name}",
            "ready": is_ready,
            "started": is_ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec.containers
    ]


def read_duration(annotations: Mapping[str, str], key: str, default: float) -> float:
    """Return the duration in an annotation. Invalid durations are treated as absent.

    >>> read_duration({RUN_FOR: "1m30s"}, RUN_FOR, 5.0), read_duration({}, RUN_FOR, 5.0)
    (90.0, 5.0)
    """
    text = annotations.get(key, "").strip()
    try:
        return parse_duration(text, where=key) if text else default
    except InputError:
        return default


_SHELLS: Final = frozenset(("sh", "bash", "ash"))
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)").fullmatch
_SPECIAL: Final = re.compile(r"[$`|<>(){}*?&\\]").search
_CODE: Final = re.compile(r"\d{1,3}").fullmatch


def command_annotations(template: Data) -> dict[str, str]:
    """Return the annotations that make a fake kubelet imitate the command of a template's only container.

    Only commands that sleep, echo and exit are supported. Annotations of the template take precedence.

    >>> command_annotations({"spec": {"containers": [{"command": ["sh", "-c", "sleep 5; exit 3"]}]}})
    {'moorage.io/run-for': '5s', 'moorage.io/exit-code': '3'}
    """
    containers = (template.get("spec") or {}).get("containers") or []
    if len(containers) != 1:
        return {}
    words = [*(containers[0].get("command") or ()), *(containers[0].get("args") or ())]
    name = words[0].rpartition("/")[2] if words else ""
    if name in _SHELLS and len(words) == 3 and words[1] == "-c":
        steps = [step.split() for step in re.split(r";|&&|\n", words[2]) if step.strip()]
    else:
        steps = [[name, *words[1:]]]
    own = (template.get("metadata") or {}).get("annotations") or {}
    return {key: text for key, text in _annotations(steps).items() if key not in own}


def _annotations(steps: list[list[str]]) -> dict[str, str]:
    slept, code = 0.0, ""
    for name, *args in steps:
        duration = _DURATION(args[0]) if name == "sleep" and len(args) == 1 else None
        if duration is not None:
            slept += float(duration[1]) * _UNITS[duration[2]]
        elif name == "exit" and len(args) == 1 and _CODE(args[0]):
            code = args[0]
            break
        elif name not in ("true", "false", "echo") or _SPECIAL(" ".join(args)):
            return {}
        code = "1" if name == "false" else ""
    annotations = {RUN_FOR: f"{slept:.0f}s" if slept >= 1 else f"{slept * 1000:.0f}ms"} if slept else {}
    return {**annotations, EXIT_CODE: code} if code else annotations
