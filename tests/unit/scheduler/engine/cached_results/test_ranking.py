"""Ties: the winner is the root of upstream's heap."""

import heapq
import random

import numpy as np
import pytest

from moorage.scheduler.engine.cached_results.ranking import HeapOrder


def root_after_init(scores: list[int]) -> int:
    """Sift down as upstream's heap does: right only if strictly better than left, swap only if strictly better."""
    heap = list(range(len(scores)))
    for start in range(len(scores) // 2 - 1, -1, -1):
        parent = start
        while (child := 2 * parent + 1) < len(scores):
            if child + 1 < len(scores) and scores[heap[child + 1]] > scores[heap[child]]:
                child += 1
            if scores[heap[child]] <= scores[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0]


def chosen(scores: list[int]) -> int:
    ties = np.flatnonzero(np.array(scores) == max(scores))
    return int(ties[HeapOrder().ranks(len(scores))[ties].argmin()])


@pytest.mark.parametrize("size", range(1, 11))
def test_among_equals_the_first_found_wins(size: int) -> None:
    assert chosen([7] * size) == 0


CASES = {
    "a single best": ([1, 5, 3], 1),
    "left subtree before right": ([0, 0, 9, 0, 9], 4),
    "a parent before its child": ([0, 9, 0, 9], 1),
    "deep on the left before shallow on the right": ([0, 0, 9, 0, 0, 0, 0, 9], 7),
}


@pytest.mark.parametrize(("scores", "winner"), CASES.values(), ids=CASES)
def test_preorder(scores: list[int], winner: int) -> None:
    assert chosen(scores) == winner == root_after_init(scores)


def test_random_scores_choose_as_the_heap_does() -> None:
    dice = random.Random(4)
    for _ in range(2_000):
        scores = [dice.randint(0, 3) for _ in range(dice.randint(1, 40))]
        assert chosen(scores) == root_after_init(scores)


def test_ranks_stay_true_when_the_heap_outgrows_them() -> None:
    order = HeapOrder()
    few = order.ranks(10).argsort().tolist()
    order.ranks(20_000)
    assert order.ranks(10).argsort().tolist() == few
    assert order.ranks(20_000).max() < order.size


def test_the_reference_heap_is_a_heap() -> None:
    scores = [3, 1, 4, 1, 5, 9, 2, 6]
    assert scores[root_after_init(scores)] == heapq.nlargest(1, scores)[0]
