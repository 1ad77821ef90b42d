"""Policies for tests: valid and invalid ones."""

import os
import time
from typing import Any

from moorage.contrib.learned_score.policies import Float32Array

number = 7


def fullest(nodes: Float32Array, pod: Float32Array) -> Any:
    """Prefer the node with the least CPU left."""
    return -nodes[:, 2]


def relative(nodes: Float32Array, pod: Float32Array) -> Any:
    """Return a property of a node that depends on other nodes."""
    return nodes[:, 1] - nodes[:, 1].mean()


def raises(nodes: Float32Array, pod: Float32Array) -> Any:
    raise KeyError("weights")


def too_few(nodes: Float32Array, pod: Float32Array) -> Any:
    return [1.0]


def no_number(nodes: Float32Array, pod: Float32Array) -> Any:
    return nodes[:, 0] * float("nan")


def words(nodes: Float32Array, pod: Float32Array) -> Any:
    return ["good"] * len(nodes)


def hangs(nodes: Float32Array, pod: Float32Array) -> Any:
    while True:
        pass


def sleeps_for_large_pods(nodes: Float32Array, pod: Float32Array) -> Any:
    if pod[0] > 1.0:
        time.sleep(3600)
    return fullest(nodes, pod)


def dies(nodes: Float32Array, pod: Float32Array) -> Any:
    os._exit(3)


def snug(nodes: Float32Array, pod: Float32Array) -> Any:
    """Prefer nodes with little free capacity, small nodes first; nodes of different sizes never have equal scores."""
    return -(nodes[:, 2] + nodes[:, 5]) - 0.001 * nodes[:, 0]
