"""{{ plugin }}: limit the number of running pods with a label, and delay their start."""

import msgspec

from moorage import CycleState, Handle, PermitPlugin, Pod, ReservePlugin, Status, Wait


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"
    seats: int = 2
    start_seconds: float = 5.0


class {{ plugin }}(ReservePlugin, PermitPlugin):
    """Give licenses to pods with a label, and delay their start."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return a status if all licenses are in use. This pod is assumed, so the nodes include it."""
        if self.args.label not in pod.labels:
            return None
        used = sum(self.args.label in other.labels for node in self.handle.nodes for other in node.pods.values())
        if used <= self.args.seats:
            return None
        # Changes of pods and nodes retry the pod. After other changes, call handle.wake_rejected().
        return Status.unschedulable(f"node(s) were not reserved: all {self.args.seats} licenses were in use")

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`. This plugin counts pods on nodes, so there is nothing to undo."""

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Wait | None:
        """Delay the binding of a pod with the label by some seconds."""
        if self.args.label not in pod.labels:
            return None
        self.handle.call_later(self.args.start_seconds, lambda: self.allow(pod.uid))
        return Wait(seconds=self.args.start_seconds + 60)

    def allow(self, uid: str) -> None:
        """Allow the binding of a waiting pod."""
        if (waiting := self.handle.waiting_pod(uid)) is not None:
            waiting.allow(self.name)
