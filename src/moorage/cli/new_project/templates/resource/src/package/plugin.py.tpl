"""{{ plugin }}: nodes are reserved for teams by a custom resource."""

import msgspec

from moorage import CycleState, FilterPlugin, Handle, NodeInfo, Pod, Status
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import KubeStruct

GROUP = "{{ project }}.example.org"


class ReservationSpec(KubeStruct, frozen=True):
    """Whom a node is for."""

    team: str = ""


class Reservation(KubeObject, frozen=True):
    """A node that is reserved; it has the name of the node. deploy/definition.yaml adds it to a cluster."""

    spec: ReservationSpec = ReservationSpec()


custom_kind("Reservation", "reservations", f"{GROUP}/v1", namespaced=False, type=Reservation)


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say."""

    label: str = "{{ label }}"


class {{ plugin }}(FilterPlugin):
    """Keep pods off nodes that are reserved for another team; a label of the pod names its team."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args, handle: Handle) -> None:
        self.label = args.label
        # The scheduler lists and watches the kind from now on, and tries pods again that were rejected when one
        # of its objects changes. deploy/rbac.yaml allows it.
        self.reservations = handle.lister(Reservation)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept a node by `None`; the text of a rejection is what users read."""
        reservation = self.reservations.get(node.name)
        if reservation is None or reservation.spec.team == pod.labels.get(self.label):
            return None
        return Status.unresolvable(f"node(s) were reserved for team {reservation.spec.team}")
