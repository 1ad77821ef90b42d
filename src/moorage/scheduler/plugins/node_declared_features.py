"""NodeDeclaredFeatures: a pod that needs a feature runs only on nodes that declare it."""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import Status, Verdict

MISSING: Final = Status.unresolvable("node(s) didn't match Pod's required features")
REQUIRED: Final = StateKey[frozenset[str]](
    "PreFilterNodeDeclaredFeatures",
    missing='error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
)

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
MOUNT_OPTIONS: Final = "VolumeBindMountOptions"
CERTIFICATES: Final = "PodCertificateMLDSA"
CERTIFICATE_KEYS: Final = ("MLDSA44", "MLDSA65", "MLDSA87")


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Reject nodes that do not declare a feature that the pod's spec uses."""

    depends_on = DependsOn.NODE
    _signs_template = True

    def __init__(self, *, handle: Handle) -> None:
        self._required: Callable[[Pod], frozenset[str]]
        self._required = required_features_1_38 if handle.features.since(1, 38) else required_features
        self._is_on = handle.features.enabled("NodeDeclaredFeatures")
        if not self._is_on:
            # The configuration may enable the plugin without its gate: then no pod needs a feature.
            self._required = _no_features

    def sign(self, pod: Pod) -> Hashable:
        return self._required(pod)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        required = self._required(pod)
        if not required:
            return Status.skip()
        cycle[REQUIRED] = required
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if not self._is_on:
            return None
        return None if cycle[REQUIRED].issubset(node.node.status.declared_features) else MISSING

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        if not self._is_on:
            return Verdict.accept(len(nodes))
        required = cycle[REQUIRED]
        lacking = nodes.declared_features.where(lambda declared: not required <= declared)
        return Verdict.reject(where=lacking, because=MISSING)

    def events_to_register(self) -> Sequence[EventRegistration]:
        node_change = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            EventRegistration(node_change, after_node_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE), self.after_pod_change),
        )

    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """Queue when the required features of the pod changed."""
        return queue_if(self._required(old) != self._required(new))


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue after every new node, and after every change of a node's declared features."""
    return queue_if(old is None or old.status.declared_features != new.status.declared_features)


def _no_features(_pod: Pod) -> frozenset[str]:
    return frozenset()


def required_features(pod: Pod) -> frozenset[str]:
    """Infer the required node features from a pod's spec."""
    spec = pod.spec
    required = set()
    if spec.host_network and spec.host_users is False:
        required.add(HOST_NETWORK_USERS)
    for container in (*spec.init_containers, *spec.containers):
        if container.restart_policy_rules and any(
            rule.action == "RestartAllContainers" for rule in container.restart_policy_rules
        ):
            required.add(RESTART_ALL)
        if container.volume_mounts and any(mount.bind_mount_options for mount in container.volume_mounts):
            required.add(MOUNT_OPTIONS)
    return frozenset(required)


def required_features_1_38(pod: Pod) -> frozenset[str]:
    """Infer the required node features from a pod's spec, from 1.38."""
    required = required_features(pod)
    for volume in pod.spec.volumes:
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.pod_certificate is not None and source.pod_certificate.key_type in CERTIFICATE_KEYS:
                return required | {CERTIFICATES}
    return required
