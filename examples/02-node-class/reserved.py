"""Nodes reserved for a team by a custom resource: a plugin class with an informer."""

from moorage import CycleState, FilterPlugin, Handle, KubeObject, KubeStruct, NodeInfo, Pod, Status, custom_kind


class ReservationSpec(KubeStruct, frozen=True):
    """The team that a node is reserved for."""

    team: str = ""


class Reservation(KubeObject, frozen=True):
    """A node that is reserved; it has the name of the node."""

    spec: ReservationSpec = ReservationSpec()


custom_kind("Reservation", "reservations", "example.org/v1", namespaced=False, type=Reservation)


class Reserved(FilterPlugin):
    """Keep pods off nodes that are reserved for another team; a pod's team is its label ``team``."""

    def __init__(self, *, handle: Handle) -> None:
        # All it takes: the scheduler lists and watches the resource from now on, and a change of it wakes the pods
        # that this plugin turned down.
        self._reservations = handle.lister(Reservation)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Turn a pod down where another team has the node."""
        reservation = self._reservations.get(node.name)
        if reservation is None or reservation.spec.team == pod.labels.get("team"):
            return None
        return Status.unresolvable(f"node(s) were reserved for team {reservation.spec.team}")
