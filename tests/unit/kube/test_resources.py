"""Served resources: which kinds each feature gate adds."""

import pytest

from moorage.kube.features import FeatureGates
from moorage.kube.resources import Resources

SERVED = {
    "": set(),
    "GenericWorkload=true": {
        ("v1beta1", "podgroups"), ("v1beta1", "workloads"), ("v1alpha3", "podgroups"), ("v1alpha3", "workloads"),
    },
    "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true": {
        ("v1beta1", "podgroups"), ("v1beta1", "workloads"), ("v1alpha3", "podgroups"), ("v1alpha3", "workloads"),
        ("v1alpha3", "compositepodgroups"),
    },
}  # fmt: skip


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("gates", "want"), SERVED.items())
def test_gates_select_the_served_resources(gates: str, want: set[tuple[str, str]]) -> None:
    resources = Resources(FeatureGates.parse(gates))
    served = {(item.version, item.plural) for item in resources if item.group == "scheduling.k8s.io"}
    assert served == want | {("v1", "priorityclasses")}
