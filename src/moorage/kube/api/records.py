"""Objects that the scheduler writes: bindings, events, leases and lease candidates."""

from msgspec import Struct

from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.storage import ObjectReference
from moorage.kube.api.struct import Int32, KubeStruct


class Binding(KubeStruct, frozen=True, omit_defaults=False):
    """The binding of a pod to a node, in the format of the API server."""

    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()
    api_version: str = "v1"
    kind: str = "Binding"


class EventSeries(KubeStruct, frozen=True):
    count: Int32 = 0
    last_observed_time: str | None = None


class Event(KubeObject, frozen=True, dict=True, gc=True):
    """An event (events.k8s.io/v1)."""

    event_time: str | None = None
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None


class EventNote(Struct, frozen=True):
    """An event for the user before it is written. ``controller`` is the reporting scheduler name."""

    regarding: KubeObject
    reason: str
    action: str
    note: str
    controller: str
    is_warning: bool = False
    related: KubeObject | None = None


class LeaseSpec(KubeStruct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubeObject, frozen=True, dict=True, gc=True):
    spec: LeaseSpec = LeaseSpec()


class LeaseCandidateSpec(KubeStruct, frozen=True):
    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(KubeObject, frozen=True, dict=True, gc=True):
    spec: LeaseCandidateSpec = LeaseCandidateSpec()
