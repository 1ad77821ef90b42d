"""A gang by Permit: pods of one gang wait for each other and are bound together, or not at all."""

from moorage import CycleState, Handle, PermitPlugin, Pod, ReservePlugin, Status, Wait

GANG, SIZE = "gang", "gang-size"
PATIENCE = 30.0


class Gang(PermitPlugin, ReservePlugin):
    """Hold pods with the label ``gang`` until ``gang-size`` of them have a node."""

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        """Wait for the others; the last one takes them all along."""
        if GANG not in pod.labels:
            return None
        size = pod.labels.get(SIZE, "")
        if not size.isdecimal():
            return Status.unresolvable(f"the pod's label {SIZE} is {size!r}: write how many pods the gang has")
        waiting = [member for member in self._handle.waiting_pods() if same_gang(member.pod, pod)]
        bound = sum(same_gang(member, pod) for node in self._handle.nodes for member in node.pods.values())
        if bound < int(size):  # those that wait, and this one, are counted on their nodes already
            return Wait(PATIENCE)
        for member in waiting:
            member.allow(self.name)
        return None

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Set nothing aside: the node's resources are taken already."""
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """When one gives up, the others give their places back at once."""
        for member in self._handle.waiting_pods():
            if same_gang(member.pod, pod):
                member.reject(self.name, f"{pod.name} of the same gang has no place")


def same_gang(left: Pod, right: Pod) -> bool:
    """Return whether two pods belong to the same gang."""
    return left.namespace == right.namespace and left.labels.get(GANG) == right.labels.get(GANG) is not None
