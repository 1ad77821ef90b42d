"""{{ plugin }}: binds pods with a label, and logs each of these bindings."""

import msgspec

from moorage import BindPlugin, CycleState, Handle, Pod, Status


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(BindPlugin):
    """Bind pods with a label; leave the others to DefaultBinder."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args, handle: Handle) -> None:
        self.label = args.label
        self.handle = handle
        self.bound: list[str] = []

    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return `None` if the pod is bound, `Status.skip()` to leave it to the next plugin, or an error.

        It runs in parallel with the next scheduling cycles, and may wait for other systems.
        """
        if self.label not in pod.labels:
            return Status.skip()
        await self.handle.cluster.bind(pod, node_name)
        self.handle.log.info("bound a pod", pod=pod.key, node=node_name, reason=pod.labels[self.label])
        self.bound.append(pod.name)
        return None
