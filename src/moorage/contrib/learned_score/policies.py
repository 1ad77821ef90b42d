"""Policies: functions from observations to scores, named as ``module:function`` or kept in ONNX files."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from moorage.common.arrays import NDArray
from moorage.common.errors import InputError
from moorage.common.user_files import open_file
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from moorage.scheduler.config.contrib_args import ONNX_SUFFIX
from moorage.scheduler.framework.faults import shown
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import FloatArray

Float32Array = NDArray[np.float32]

_GIB: Final = float(1 << 30)
_UNITS: Final = {CPU: 1000.0, MEMORY: _GIB, EPHEMERAL_STORAGE: _GIB}
_AVOIDED: Final = "PreferNoSchedule"


class Observation(NamedTuple):
    """One row per node, and one row for the pod, with the columns of :class:`ObservedColumns`."""

    nodes: Float32Array
    pod: Float32Array


class ObservedColumns:
    """The columns for some resources, and how they are read from a cluster.

    For each resource a node has ``allocatable`` (cores, GiB, or a number), ``free`` (the share that is not requested)
    and ``left`` (the share that would be free with the pod; negative if it does not fit). A node without the resource
    has zeros. ``pods.free`` is the free share of the pod limit, ``taints.avoided`` the number of untolerated
    PreferNoSchedule taints. The pod has its requests and the decimal logarithm of its priority.
    """

    def __init__(self, resources: Sequence[str]) -> None:
        self.resources = tuple(resources)
        per_node = [f"{resource}.{column}" for resource in self.resources for column in ("allocatable", "free", "left")]
        self.of_nodes = (*per_node, "pods.free", "taints.avoided")
        self.of_pod = (*(f"{resource}.request" for resource in self.resources), "priority")
        self.left = [self.of_nodes.index(f"{resource}.left") for resource in self.resources]
        """The indexes of the ``left`` columns, which decide without a policy."""

    def observe(self, pod: Pod, nodes: NodeTable) -> Observation:
        """Return the observation of a pod and the nodes of a table."""
        rows = np.zeros((len(nodes), len(self.of_nodes)), dtype=np.float32)
        for number, resource in enumerate(self.resources):
            allocatable, columns = nodes.allocatable[resource], rows[:, 3 * number : 3 * number + 3]
            free = allocatable - nodes.requested[resource]
            columns[:, 0] = allocatable / _unit(resource)
            columns[:, 1] = _shares(free, allocatable)
            columns[:, 2] = _shares(free - pod.requests.get(resource, 0), allocatable)
        rows[:, -2] = _shares(nodes.allocatable[PODS] - nodes.pod_count, nodes.allocatable[PODS])
        rows[:, -1] = nodes.taints.map(
            lambda taints: sum(taint.effect == _AVOIDED and not pod.tolerates(taint) for taint in taints)
        )
        requests = [pod.requests.get(resource, 0) / _unit(resource) for resource in self.resources]
        importance = np.sign(pod.priority) * np.log10(1.0 + abs(pod.priority))
        return Observation(rows, np.array([*requests, importance], dtype=np.float32))


def _unit(resource: str) -> float:
    return _GIB if resource.startswith("hugepages-") else _UNITS.get(resource, 1.0)


def _shares(amounts: NDArray[np.int64], of: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(amounts, of, out=np.zeros(len(of), dtype=np.float64), where=of > 0)


ScoringFunction = Callable[[Float32Array, Float32Array], Any]
"""Takes the columns of the nodes, one row each, and of the pod. Returns one number per node, higher is better."""

_INPUTS: Final = ("nodes", "pod")


class UnusablePolicy(Exception):
    """A policy cannot be loaded. The message contains the reason."""


class InvalidScoresError(Exception):
    """A policy returned something other than one finite number per node."""


def load_policy_function(policy: str) -> ScoringFunction:
    """Load a policy by its name or file. Raise UnusablePolicy if it is invalid."""
    if policy.endswith(ONNX_SUFFIX):
        return _onnx_function(Path(policy))
    module_name, _, path = policy.partition(":")
    try:
        module: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UnusablePolicy(f"the policy {policy} cannot be imported: {error}; is it on PYTHONPATH?") from error
    for name in path.split("."):
        if not hasattr(module, name):
            raise UnusablePolicy(f"the policy {policy} does not exist: {shown(module)} has no {name!r}")
        module = getattr(module, name)
    if not callable(module):
        raise UnusablePolicy(f"the policy {policy} is {shown(module)}, which cannot be called: name a function")
    function: ScoringFunction = module
    return function


def _onnx_function(file: Path) -> ScoringFunction:
    try:
        import onnxruntime
    except ImportError:
        raise UnusablePolicy(f"the policy {file} needs onnxruntime: pip install 'moorage[onnx]'") from None
    try:
        open_file(file).close()
    except InputError as error:
        raise UnusablePolicy(f"the policy {error}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # sums must not depend on the number of cores
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's own errors share no base
        raise UnusablePolicy(f"the policy {file} cannot be read: {error}") from error
    inputs = {item.name for item in session.get_inputs()}
    if not inputs <= set(_INPUTS) or "nodes" not in inputs:
        input_names = ", ".join(sorted(inputs))
        raise UnusablePolicy(f"the policy {file} has the inputs {input_names}: rename them to nodes and pod (optional)")

    def score(nodes: Float32Array, pod: Float32Array) -> Any:
        arrays = {"nodes": nodes, "pod": pod}
        return session.run(None, {name: arrays[name] for name in inputs})[0]

    return score


def compute_scores(function: ScoringFunction, observation: Observation) -> FloatArray:
    """Score nodes with a policy. Its exceptions propagate. InvalidScoresError without one finite number per node."""
    answer = function(observation.nodes, observation.pod)
    count = len(observation.nodes)
    try:
        scores = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidScoresError(f"it returned {shown(answer)}, not one number for each of {count} nodes") from error
    if scores.shape == (count, 1):
        scores = scores[:, 0]
    if scores.shape != (count,):
        raise InvalidScoresError(f"it returned an array of shape {scores.shape} for {count} nodes")
    if not np.isfinite(scores).all():
        raise InvalidScoresError("a score is not a number")
    return scores
