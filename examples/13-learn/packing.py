"""The policy that learn.ipynb trains: a weight for each column of a node. LearnedScore calls ``policy``."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WEIGHTS = np.array(json.loads((Path(__file__).parent / "weights.json").read_text()))


def policy(nodes: NDArray[np.float32], _pod: NDArray[np.float32]) -> NDArray[np.float64]:
    """Score all feasible nodes, a row each; the node with the highest number gets the pod."""
    scores: NDArray[np.float64] = nodes @ WEIGHTS
    return scores
