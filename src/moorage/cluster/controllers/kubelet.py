"""Fake kubelets: pods on their nodes start, run for a while, end, and stop when they are told to.

What a pod does can be settled by annotations, as durations such as ``500ms``, ``2m`` or plain seconds:

- ``moorage.io/start-delay``: how long its containers take to start;
- ``moorage.io/run-for``: how long they run, then end; without it pods that are not restarted run for a few seconds (in
  a simulation only those of jobs) and all others for ever;
- ``moorage.io/exit-code``: what they end with; anything but 0 makes the pod fail;
- ``moorage.io/stop-delay``: how long they take to stop, if their grace period lets them.

Every image is there but those with the tag ``non-existent``: a pod with one of them never starts.

The annotation ``moorage.io/fail: "true"`` on a node makes it fall silent until it is taken off.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch, RequeueAfter
from moorage.cluster.controllers.informer_cache import InformerCache
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
"""On the nodes that fake kubelets look after; others on the same API server have their own."""


@dataclass(frozen=True, slots=True)
class KubeletPace:
    """How long things take where a pod does not say, in seconds; ``None`` is for ever.

    ``run`` is for pods that are not restarted, ``run_job`` for those of them that a job made.
    """

    start: float = 0.5
    run: float | None = 5.0
    stop: float = 0.5
    run_job: float | None = 5.0


class Kubelet:
    """Runs the pods of every fake node."""

    name = "kubelets"
    kinds = (Pod, Node)
    pause = 0.0

    def __init__(self, clock: Clock, pace: KubeletPace | None = None, *, runs_every_node: bool = False) -> None:
        self._clock = clock
        self._runs_every_node = runs_every_node
        self._pace = pace or KubeletPace()
        self._since: dict[str, tuple[str, float]] = {}
        self._missed: set[str] = set()

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a pod that has a node when it changes; at all pods of a node when that falls silent or comes back.

        Pods and nodes are watched apart, so a pod may be seen before its node is: then it is looked at once more.
        """
        if isinstance(obj, Pod):
            if cache[Pod].get(obj.key) is None:
                self._since.pop(obj.uid, None)
            return (obj.key,) if obj.node_name else ()
        known = cache[Node].get(obj.name)
        if known is not None and obj.name in self._missed:
            self._missed.remove(obj.name)
        elif known is not None and FAIL not in obj.annotations and FAIL not in known.annotations:
            return ()
        return [pod.key for pod in cache[Pod].on_node(obj.name)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Take the next step in a pod's life, or wait for it."""
        pod = cache[Pod].get(key)
        if pod is None or not pod.node_name:
            return ()
        node = cache[Node].get(pod.node_name)
        if node is None:
            self._missed.add(pod.node_name)
            return ()
        if not (self._runs_every_node or FAKE_LABEL in node.labels) or is_silent(node):
            return ()
        return next_step(pod, self._pace, since=self._seen(pod), now=self._clock.now())

    def _seen(self, pod: Pod) -> float:
        """Return since when a pod has been in the state it is in: times in the API have whole seconds only."""
        state = "Stopping" if pod.is_terminating else pod.status.phase
        known = self._since.get(pod.uid)
        if known is None or known[0] != state:
            known = self._since[pod.uid] = (state, self._clock.now())
        return known[1]


def is_silent(node: Node) -> bool:
    """Return whether a node has been told to fail."""
    return node.annotations.get(FAIL, "") not in ("", "false")


def next_step(pod: Pod, pace: KubeletPace, *, since: float, now: float) -> Iterator[ControllerAction]:
    """Decide what a pod does next; ``since`` is when it came into the state it is in."""
    if pod.is_terminating:
        grace = pod.metadata.deletion_grace_period_seconds
        wanted = seconds_in(pod.annotations, STOP_DELAY, pace.stop)
        delay = 0.0 if pod.is_finished else min(wanted, wanted if grace is None else float(grace))
        yield from _when_due(since + delay, now, lambda: Delete(pod, grace=0))
    elif pod.status.phase in ("", "Pending"):
        delay = seconds_in(pod.annotations, START_DELAY, pace.start)
        if not any(container.image.endswith(MISSING_TAG) for container in pod.spec.containers):
            yield from _when_due(since + delay, now, lambda: Patch(pod, {"status": running(pod, now)}, "status"))
        elif pod.status.start_time is None:
            yield from _when_due(since + delay, now, lambda: Patch(pod, {"status": without_image(pod, now)}, "status"))
    elif pod.status.phase == "Running":
        if not _is_ready(pod):
            yield Patch(pod, {"status": running(pod, now)}, "status")
        lifetime = _lifetime(pod, pace)
        if lifetime is not None:
            yield from _when_due(since + lifetime, now, lambda: Patch(pod, {"status": ended(pod, now)}, "status"))


def _when_due(moment: float, now: float, action: Callable[[], ControllerAction]) -> Iterator[ControllerAction]:
    yield RequeueAfter(moment - now) if moment > now else action()


def _lifetime(pod: Pod, pace: KubeletPace) -> float | None:
    if RUN_FOR in pod.annotations:
        return seconds_in(pod.annotations, RUN_FOR, pace.run or 0.0)
    if pod.spec.restart_policy not in ("Never", "OnFailure"):
        return None
    maker = pod.metadata.controller
    return pace.run_job if maker is not None and maker.kind == "Job" else pace.run


def _is_ready(pod: Pod) -> bool:
    condition = pod.condition("Ready")
    return condition is not None and condition.status == "True"


def running(pod: Pod, now: float) -> Data:
    """Return the status of a pod whose containers have started."""
    moment = format_time(now)
    state = {"running": {"startedAt": moment}}
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or moment,
        "conditions": _conditions(pod, "True", moment),
        "containerStatuses": _containers(pod, state, is_ready=True),
        **_addresses(pod),
    }


def without_image(pod: Pod, now: float) -> Data:
    """Return the status of a pod whose containers cannot start for want of an image."""
    moment = format_time(now)
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "fake nodes have no image with this tag"}}
    return {
        "phase": "Pending",
        "startTime": moment,
        "conditions": _conditions(pod, "False", moment, reason="ContainersNotReady"),
        "containerStatuses": _containers(pod, waiting, is_ready=False),
    }


def ended(pod: Pod, now: float) -> Data:
    """Return the status of a pod whose containers have ended."""
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
    """Return all conditions of a pod: a merge patch replaces the list, so those of others are kept."""
    own = {"Initialized": "True", "Ready": ready, "ContainersReady": ready, "PodReadyToStartContainers": "True"}
    if pod.condition("PodScheduled") is None:
        # It was created with a node: no scheduler had a say.
        own["PodScheduled"] = "True"
    kept = [condition for condition in pod.status.conditions if condition.type not in own]
    conditions: list[Data] = [
        {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": condition.last_transition_time,
            **({"reason": condition.reason} if condition.reason else {}),
            **({"message": condition.message} if condition.message else {}),
        }
        for condition in kept
    ]
    for kind, status in own.items():
        known = pod.condition(kind)
        since = known.last_transition_time if known is not None and known.status == status else moment
        explanation = {"reason": reason} if status == "False" else {}
        conditions.append({"type": kind, "status": status, "lastTransitionTime": since, **explanation})
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


def _addresses(pod: Pod) -> Data:
    """Give a pod an address of its own, the same whenever it is asked for."""
    number = int.from_bytes(pod.uid.encode()[-6:], "big") % 0xFFFF00 + 1
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {"podIP": address, "podIPs": [{"ip": address}], "hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}]}


def seconds_in(annotations: Mapping[str, str], key: str, default: float) -> float:
    """Read a duration from an annotation; one that cannot be read counts as absent.

    >>> seconds_in({RUN_FOR: "1m30s"}, RUN_FOR, 5.0), seconds_in({}, RUN_FOR, 5.0)
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


def annotations_of_command(template: Data) -> dict[str, str]:
    """Return the annotations that have a fake kubelet do what the command of a template's only container does.

    Nothing for a command that does more than to sleep, to say something and to end; what the template has itself stays.

    >>> annotations_of_command({"spec": {"containers": [{"command": ["sh", "-c", "sleep 5; exit 3"]}]}})
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
    for name, *rest in steps:
        duration = _DURATION(rest[0]) if name == "sleep" and len(rest) == 1 else None
        if duration is not None:
            slept += float(duration[1]) * _UNITS[duration[2]]
        elif name == "exit" and len(rest) == 1 and _CODE(rest[0]):
            code = rest[0]
            break
        elif name not in ("true", "false", "echo") or _SPECIAL(" ".join(rest)):
            return {}
        code = "1" if name == "false" else ""
    annotations = {RUN_FOR: f"{slept:.0f}s" if slept >= 1 else f"{slept * 1000:.0f}ms"} if slept else {}
    return {**annotations, EXIT_CODE: code} if code else annotations
