"""A hint index omits no pod: an event for which a hint returns Queue has a key in common with the pod."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, EventRegistration, QueueingHint, Resource
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.node_affinity import NodeAffinity
from moorage.scheduler.plugins.node_ports import NodePorts
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.scheduler.plugins.volume_restrictions import VolumeRestrictions
from moorage.testing import make_node, nodes, pods
from moorage.testing.rig import Rig

RIG = Rig(make_node("n"))
REGISTRATIONS = {
    f"{plugin.name} {number}": registration
    for plugin in (
        *(InterPodAffinity(handle=RIG), PodTopologySpread(handle=RIG), NodePorts(), NodeAffinity()),
        VolumeRestrictions(handle=RIG),
    )
    for number, registration in enumerate(plugin.events_to_register())
    if registration.index is not None and registration.event.resource != Resource.PERSISTENT_VOLUME_CLAIM
}
ASSIGNED = pods().map(lambda pod: pod.on_node("n"))


def shares_a_key(registration: EventRegistration, pod: Pod, old: Any, new: Any) -> bool:
    assert registration.index is not None
    keys, affected = registration.index.keys(pod), registration.index.affected(old, new)
    return keys is None or affected is None or not set(keys).isdisjoint(affected)


@settings(max_examples=60)
@given(pod=pods(), assigned=st.tuples(ASSIGNED, ASSIGNED), changed=st.tuples(nodes(), nodes()), exist=st.integers(1, 3))
def test_a_hint_queues_only_pods_with_a_key_of_the_event(
    pod: Pod, assigned: tuple[Pod, Pod], changed: tuple[Node, Node], exist: int
) -> None:
    for name, registration in REGISTRATIONS.items():
        assert registration.hint is not None
        actions, states = registration.event.action, exist
        old, new = changed if registration.event.resource == Resource.NODE else assigned
        if not actions & Action.DELETE:
            states |= 2
        elif actions == Action.DELETE:
            states = 1
        before, after = old if states & 1 else None, new if states & 2 else None
        if registration.hint(pod, before, after) is QueueingHint.QUEUE:
            assert shares_a_key(registration, pod, before, after), name


def test_these_plugins_have_an_index() -> None:
    plugins = ["InterPodAffinity", "NodeAffinity", "NodePorts", "PodTopologySpread", "VolumeRestrictions"]
    assert sorted({name.split()[0] for name in REGISTRATIONS}) == plugins
