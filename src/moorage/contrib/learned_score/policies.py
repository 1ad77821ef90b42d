"""Policies: functions from observations to scores, named as ``module:function`` or kept in ONNX files."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from moorage.common.errors import InputError
from moorage.common.user_files import open_file
from moorage.contrib.learned_score.observation import Float32Array, Observation
from moorage.scheduler.config.contrib_args import ONNX_SUFFIX
from moorage.scheduler.framework.faults import shown
from moorage.scheduler.framework.status import FloatArray

ScoringFunction = Callable[[Float32Array, Float32Array], Any]
"""Takes the columns of the nodes, one row each, and of the pod; returns one number per node, higher is better."""

_INPUTS: Final = ("nodes", "pod")


class UnusablePolicy(Exception):
    """A policy cannot be loaded; the message contains the reason."""


class NonsenseAnswer(Exception):
    """A policy returned something other than one finite number per node."""


def load_policy_function(policy: str) -> ScoringFunction:
    """Load a policy by its name or file; raise UnusablePolicy if it is invalid."""
    if policy.endswith(ONNX_SUFFIX):
        return _onnx_function(Path(policy))
    module_name, _, path = policy.partition(":")
    try:
        module: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UnusablePolicy(f"the policy {policy} cannot be imported: {error}; is it on PYTHONPATH?") from error
    for name in path.split("."):
        if not hasattr(module, name):
            raise UnusablePolicy(f"the policy {policy} is not there: {shown(module)} has no {name!r}")
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
    inputs = {given.name for given in session.get_inputs()}
    if not inputs <= set(_INPUTS) or "nodes" not in inputs:
        input_names = ", ".join(sorted(inputs))
        raise UnusablePolicy(
            f"the policy {file} has the inputs {input_names}: call them nodes and (if it is needed) pod"
        )

    def score(nodes: Float32Array, pod: Float32Array) -> Any:
        given = {"nodes": nodes, "pod": pod}
        return session.run(None, {name: given[name] for name in inputs})[0]

    return score


def scores_by(function: ScoringFunction, observation: Observation) -> FloatArray:
    """Score nodes with a policy; raise NonsenseAnswer without one finite number per node. Its exceptions propagate."""
    answer = function(observation.nodes, observation.pod)
    count = len(observation.nodes)
    try:
        scores = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NonsenseAnswer(f"it returned {shown(answer)}, not one number for each of {count} nodes") from error
    if scores.shape == (count, 1):
        scores = scores[:, 0]
    if scores.shape != (count,):
        raise NonsenseAnswer(f"it returned an array of shape {scores.shape} for {count} nodes")
    if not np.isfinite(scores).all():
        raise NonsenseAnswer("a score is not a number")
    return scores
