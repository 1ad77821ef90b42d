"""Signatures of pods do not depend on the order of dicts."""

import pytest

from moorage.kube.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint
from moorage.kube.api.affinity_terms import affinity_terms
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.testing import make_pod
from moorage.testing.rig import Rig


def pod(*, backwards: bool) -> Pod:
    def filled(**items: str) -> dict[str, str]:
        return dict(reversed(items.items())) if backwards else items

    selector = LabelSelector(match_labels=filled(app="web", tier="front"))
    away = PodAffinityTerm(topology_key="zone", label_selector=selector)
    return make_pod(
        labels=filled(app="web", tier="front"),
        requests=filled(cpu="1", memory="1Gi", **{"example.com/gpu": "1"}),
        node_selector=filled(disk="ssd", arch="arm64"),
        affinity=Affinity(pod_anti_affinity=PodAntiAffinity(required=(away,))),
        topology_spread_constraints=(
            TopologySpreadConstraint(max_skew=1, topology_key="zone", label_selector=selector),
        ),
    )


ARGS = {item.name: item.args for item in default_config().profiles[0].plugin_config}
ONE_WAY, THE_OTHER = pod(backwards=False), pod(backwards=True)


def test_equal_specs_are_one_shape_with_the_same_terms() -> None:
    assert list(ONE_WAY.labels) != list(THE_OTHER.labels)
    assert ONE_WAY.shape is THE_OTHER.shape
    assert affinity_terms(ONE_WAY) is affinity_terms(THE_OTHER)


@pytest.mark.parametrize("kind", IN_TREE, ids=lambda kind: kind.name)
def test_equal_pods_sign_the_same(kind: type[Plugin]) -> None:
    plugin = Registry(IN_TREE).build(kind.name, args=ARGS.get(kind.name), handle=Rig())
    assert plugin.sign(ONE_WAY) == plugin.sign(THE_OTHER)
