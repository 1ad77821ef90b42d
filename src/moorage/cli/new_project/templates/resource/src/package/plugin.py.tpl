"""{{ plugin }}: nodes are reserved for teams by a custom resource."""

import msgspec

from moorage import CycleState, FilterPlugin, Handle, KubeObject, KubeStruct, NodeInfo, Pod, Status, custom_kind

GROUP = "{{ project }}.example.org"


class ReservationSpec(KubeStruct, frozen=True):
    """The team that a node is reserved for."""

    team: str = ""


class Reservation(KubeObject, frozen=True):
    """The reservation of the node with the same name. deploy/definition.yaml defines the kind."""

    spec: ReservationSpec = ReservationSpec()


custom_kind("Reservation", "reservations", f"{GROUP}/v1", namespaced=False, type=Reservation)


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(FilterPlugin):
    """Reject nodes that are reserved for another team; a label of the pod names its team."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args, handle: Handle) -> None:
        self.label = args.label
        # The scheduler lists and watches this kind, and retries rejected pods when an object of the kind
        # changes. deploy/rbac.yaml grants the permission.
        self.reservations = handle.lister(Reservation)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return `None` to accept a node; the text of a rejection is part of the pod's events."""
        reservation = self.reservations.get(node.name)
        if reservation is None or reservation.spec.team == pod.labels.get(self.label):
            return None
        return Status.unresolvable(f"node(s) were reserved for team {reservation.spec.team}")
