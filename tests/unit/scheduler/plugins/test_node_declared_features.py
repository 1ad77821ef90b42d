import pytest
from msgspec import convert

from moorage.kube.api.container import Container, RestartRule, VolumeMount
from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import Volume
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_declared_features import (
    CERTIFICATES,
    HOST_NETWORK_USERS,
    MISSING,
    MOUNT_OPTIONS,
    RESTART_ALL,
    NodeDeclaredFeatures,
    after_node_change,
    required_features,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

RESTARTING = Container("c", restart_policy_rules=(RestartRule("Restart"), RestartRule("RestartAllContainers")))
MOUNTING = Container("c", volume_mounts=(VolumeMount(), VolumeMount(bind_mount_options=("noexec",))))

REQUIRED = {
    "an ordinary pod needs nothing": (make_pod(), set()),
    "restarting all containers": (make_pod(containers=(RESTARTING,)), {RESTART_ALL}),
    "also from an init container": (make_pod(init_containers=(RESTARTING,)), {RESTART_ALL}),
    "other rules need nothing": (
        make_pod(containers=(Container("c", restart_policy_rules=(RestartRule("Restart"),)),)),
        set(),
    ),
    "own users on the host network": (make_pod(host_network=True, host_users=False), {HOST_NETWORK_USERS}),
    "the host's users need nothing": (make_pod(host_network=True, host_users=True), set()),
    "users left open need nothing": (make_pod(host_network=True), set()),
    "user namespaces without the host network need nothing": (make_pod(host_users=False), set()),
    "bind mount options": (make_pod(containers=(MOUNTING,)), {MOUNT_OPTIONS}),
    "also in an init container, and together": (
        make_pod(init_containers=(MOUNTING,), containers=(RESTARTING,)),
        {MOUNT_OPTIONS, RESTART_ALL},
    ),
}


@pytest.mark.parametrize(("pod", "want"), REQUIRED.values(), ids=REQUIRED)
def test_required_features(pod: Pod, want: set[str]) -> None:
    assert required_features(pod) == want


CERTIFICATES_1_38 = {
    "a post-quantum key": ("MLDSA65", {CERTIFICATES}),
    "a classic key": ("ED25519", set()),
}


@pytest.mark.parametrize(("key_type", "want"), CERTIFICATES_1_38.values(), ids=CERTIFICATES_1_38)
def test_certificates_need_a_feature_from_1_38(key_type: str, want: set[str]) -> None:
    source = {"podCertificate": {"keyType": key_type, "signerName": "example.com/signer"}}
    data = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, source]}}
    pod = make_pod(volumes=(convert(data, Volume),))
    assert pod.spec.volumes[0].is_plain
    old, new = (
        NodeDeclaredFeatures(handle=Rig(features=FeatureGates(release="1.37"))),
        NodeDeclaredFeatures(handle=Rig(features=FeatureGates(release="1.38"))),
    )
    assert (old.sign(pod), new.sign(pod)) == (frozenset(), want)
    assert new.after_pod_change(pod, pod, make_pod()) is (QueueingHint.QUEUE if want else QueueingHint.SKIP)


PICKY = make_pod(init_containers=(MOUNTING,), containers=(RESTARTING,))


@pytest.mark.parametrize("form", FORMS)
def test_filter(form: FilterForm) -> None:
    rig = Rig(
        make_node("old"),
        make_node("half", features=[RESTART_ALL]),
        make_node("new", features=["Unknown", RESTART_ALL, MOUNT_OPTIONS]),
    )
    assert run_filter(NodeDeclaredFeatures(handle=rig), rig, PICKY, form) == [MISSING, MISSING, None]


def test_the_reason_is_upstreams() -> None:
    assert Status.unresolvable("node(s) didn't match Pod's required features") == MISSING


def test_a_pod_without_needs_is_passed_over() -> None:
    assert NodeDeclaredFeatures(handle=Rig()).pre_filter(CycleState(), make_pod(), Rig().nodes) == Status.skip()


def test_hints() -> None:
    old, new = make_node(), make_node(features=["X"])
    assert after_node_change(PICKY, None, old) is QueueingHint.QUEUE
    assert after_node_change(PICKY, old, new) is QueueingHint.QUEUE
    assert after_node_change(PICKY, new, new) is QueueingHint.SKIP
    after_pod_change = NodeDeclaredFeatures(handle=Rig()).after_pod_change
    assert after_pod_change(PICKY, PICKY, make_pod()) is QueueingHint.QUEUE
    assert after_pod_change(PICKY, PICKY, PICKY) is QueueingHint.SKIP


def test_events() -> None:
    assert [item.event for item in NodeDeclaredFeatures(handle=Rig()).events_to_register()] == [
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE),
    ]


def test_without_its_gate_the_plugin_accepts_all_nodes() -> None:
    rig = Rig(make_node("n"), features=FeatureGates(release="1.35"))
    plugin, pod = NodeDeclaredFeatures(handle=rig), make_pod(host_network=True, host_users=False)
    nodes = rig.cache.nodes
    assert plugin.pre_filter(CycleState(), pod, nodes) == Status.skip()
    # Also if the pre-filter is not enabled, and nothing was stored.
    assert plugin.filter(CycleState(), pod, next(iter(nodes))) is None
    assert not plugin.filter_nodes(CycleState(), pod, nodes).rejected.any()
