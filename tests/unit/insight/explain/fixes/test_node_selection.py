"""Fixes for node selectors and node affinity."""

import pytest
from tests.unit.insight.explain.clusters import (
    HOSTNAME,
    ON_SSD,
    Object,
    check_changes,
    node,
    pod,
    session,
)

from moorage.insight.explain.pods import explain_pod

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "the node selector matches no node": (
        [node("n1"), pod("p", nodeSelector={"disk": "ssd"})],
        ["selector", "node-label", "add-node"],
    ),
    "the node affinity matches no node": (
        [node("n1"), pod("p", affinity=ON_SSD)],
        ["affinity", "node-label", "add-node"],
    ),
}


@pytest.mark.parametrize(("objects", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_has_its_changes(objects: list[Object], kinds: list[str]) -> None:
    check_changes(objects, kinds)


def test_only_unmet_expressions_of_an_affinity_are_removed() -> None:
    """The term with the fewest unmet expressions is relaxed; an empty term would match no node."""
    here, missing = ({"key": key, "operator": "Exists"} for key in (HOSTNAME, "gone"))
    terms = [{"matchExpressions": [missing, {**missing, "key": "lost"}]}, {"matchExpressions": [here, missing]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    with session(node("n1"), pod("p", affinity=affinity)) as opened:
        dropped = next(change for change in explain_pod(opened, "default/p").changes if change.kind == "affinity")
    (operation,) = dropped.edits[0]["patch"]
    assert operation["op"] == "remove"
    assert operation["path"].endswith("/nodeSelectorTerms/1/matchExpressions/1")


CORRECTIONS: dict[str, tuple[str, str, str, bool]] = {
    "swapped letters": ("disk", "nvme-sdd", "nvme-ssd", True),
    "another number": ("pool", "general-pool-2", "general-pool-1", False),
    "another word": ("disk", "hdd-disk", "ssd-disk", False),
    "another architecture": ("kubernetes.io/arch", "linux-arm64", "linux-amd64", False),
}


@pytest.mark.parametrize(("key", "wanted", "existing", "is_corrected"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_only_misspelt_values_are_corrected(key: str, wanted: str, existing: str, is_corrected: bool) -> None:
    with session(node("n1", labels={key: existing}), pod("p", nodeSelector={key: wanted})) as opened:
        texts = [change.text for change in explain_pod(opened, "default/p").changes]
    assert any(text.startswith(f"Change {key}") for text in texts) == is_corrected
