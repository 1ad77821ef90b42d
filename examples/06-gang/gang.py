"""A gang with Permit: the pods of a gang wait for each other and are bound together."""

from moorage import CycleState, Handle, PermitPlugin, Pod, ReservePlugin, Status, Wait

GANG, SIZE = "gang", "gang-size"
TIMEOUT_SECONDS = 30.0


class Gang(PermitPlugin, ReservePlugin):
    """Delay pods with the label ``gang`` until ``gang-size`` pods have a node."""

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        """Wait for the other members; the last one allows all waiting members."""
        if GANG not in pod.labels:
            return None
        size = pod.labels.get(SIZE, "")
        if not size.isdecimal():
            return Status.unresolvable(f"the pod's label {SIZE} is {size!r}: write the number of pods in the gang")
        waiting = [member for member in self._handle.waiting_pods() if same_gang(member.pod, pod)]
        bound = sum(same_gang(member, pod) for node in self._handle.nodes for member in node.pods.values())
        if bound < int(size):  # waiting members and this pod are already assumed on their nodes
            return Wait(TIMEOUT_SECONDS)
        for member in waiting:
            member.allow(self.name)
        return None

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve nothing: the pod is already assumed on its node."""
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """If one member fails, reject the waiting ones immediately."""
        for member in self._handle.waiting_pods():
            if same_gang(member.pod, pod):
                member.reject(self.name, f"{pod.name} of the same gang was not scheduled")


def same_gang(left: Pod, right: Pod) -> bool:
    """Return whether two pods belong to the same gang."""
    return left.namespace == right.namespace and left.labels.get(GANG) == right.labels.get(GANG) is not None
