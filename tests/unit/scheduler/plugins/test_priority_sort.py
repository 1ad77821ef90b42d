from dataclasses import dataclass, field

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.plugins.priority_sort import PrioritySort
from moorage.testing import make_pod


@dataclass
class Waiting:
    pod: Pod
    timestamp: float = 0.0
    attempts: int = field(default=0)

    @property
    def priority(self) -> int:
        return self.pod.priority


CASES = {
    "the higher priority is first": (Waiting(make_pod(priority=10), 9), Waiting(make_pod(priority=5), 1), True),
    "the lower one does not": (Waiting(make_pod(priority=5), 1), Waiting(make_pod(priority=10), 9), False),
    "no priority is zero": (Waiting(make_pod()), Waiting(make_pod(priority=-1)), True),
    "among equals the longest waiting": (Waiting(make_pod(), 1), Waiting(make_pod(priority=0), 2), True),
    "and not the other": (Waiting(make_pod(), 2), Waiting(make_pod(), 1), False),
    "the time of creation does not matter": (Waiting(make_pod("b"), 1), Waiting(make_pod("a"), 2), True),
    "equal in both, neither is first": (Waiting(make_pod("a"), 1), Waiting(make_pod("b"), 1), False),
}


@pytest.mark.parametrize(("left", "right", "want"), CASES.values(), ids=CASES)
def test_less(left: Waiting, right: Waiting, want: bool) -> None:
    assert PrioritySort().less(left, right) is want
