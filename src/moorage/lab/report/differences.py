"""Which pods went elsewhere under another policy, of one seed."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from moorage.lab.rows import PodRow


class MovedPod(Struct, frozen=True):
    """The results of two policies for one pod."""

    pod: str
    kind: str
    before: str
    after: str
    waited_before: float | None
    waited_after: float | None

    @property
    def later(self) -> float:
        """How much longer it waits; never getting a node is longest."""
        before, after = _wait(self.waited_before), _wait(self.waited_after)
        return 0.0 if before == after else after - before


class Differences(Struct, frozen=True):
    """How the pods of one seed fared under another policy than the baseline."""

    pods: int
    elsewhere: int
    only_before: int
    """Pods that only the baseline placed."""
    only_after: int
    sooner: int
    later: int
    moved: Sequence[MovedPod]
    """Those that went elsewhere or waited longer or less; those that gained or lost most first."""


def _wait(waited: float | None) -> float:
    return float("inf") if waited is None else waited


def differences_of(before: Mapping[str, PodRow], after: Mapping[str, PodRow]) -> Differences:
    """Compare the pods of two trials of one seed."""
    pairs = [
        MovedPod(name, was.kind, was.node, now.node, was.waited, now.waited)
        for name, was in before.items()
        if (now := after.get(name)) is not None
    ]
    moved = [pod for pod in pairs if pod.before != pod.after or pod.later]
    return Differences(
        pods=len(pairs),
        elsewhere=sum(1 for pod in pairs if pod.before and pod.after and pod.before != pod.after),
        only_before=sum(1 for pod in pairs if pod.waited_before is not None and pod.waited_after is None),
        only_after=sum(1 for pod in pairs if pod.waited_before is None and pod.waited_after is not None),
        sooner=sum(1 for pod in pairs if pod.later < 0),
        later=sum(1 for pod in pairs if pod.later > 0),
        moved=sorted(moved, key=lambda pod: (-abs(pod.later), pod.pod)),
    )
