"""Nodes reserved for a team by a custom resource: a plugin class with an informer."""

from moorage import CycleState, FilterPlugin, Handle, KubeObject, KubeStruct, NodeInfo, Pod, Status, custom_kind


class ReservationSpec(KubeStruct, frozen=True):
    """The team that a node is reserved for."""

    team: str = ""


class Reservation(KubeObject, frozen=True):
    """The reservation of a node; it has the name of the node."""

    spec: ReservationSpec = ReservationSpec()


custom_kind("Reservation", "reservations", "example.org/v1", namespaced=False, type=Reservation)


class Reserved(FilterPlugin):
    """Reject nodes that are reserved for another team; the label ``team`` is the team of a pod."""

    def __init__(self, *, handle: Handle) -> None:
        # The scheduler now lists and watches the resource. Each change requeues the pods that this plugin rejected.
        self._reservations = handle.lister(Reservation)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject the node if it is reserved for another team."""
        reservation = self._reservations.get(node.name)
        if reservation is None or reservation.spec.team == pod.labels.get("team"):
            return None
        return Status.unresolvable(f"node(s) were reserved for team {reservation.spec.team}")
