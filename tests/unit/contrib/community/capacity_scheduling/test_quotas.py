"""Elastic quotas and their usage."""

from tests.unit.contrib.community.capacity_scheduling.quota_builders import pod, quota, rig_with

from moorage.contrib.community.capacity_scheduling.quotas import (
    ElasticQuota,
    QuotaBook,
    Usage,
)


def test_usage_follows_pods_that_come_and_go() -> None:
    rig = rig_with(quota("a"), used={"a": 2})
    usage = Usage(rig.nodes)
    assert usage.of("a")["cpu"] == 2000
    second = pod("second", "a", "1", node="n")
    rig.add(second)
    assert (usage.of("a")["cpu"], usage.of("a")["pods"]) == (3000, 2)
    rig.cache.remove_pod(second)
    assert usage.of("a")["cpu"] == 2000
    rig.cache.remove_node("n")
    assert usage.of("a").get("cpu", 0) == 0


def test_changes_of_quotas_are_seen() -> None:
    rig = rig_with(quota("a"))
    book, usage = QuotaBook(rig.objects[ElasticQuota]), Usage(rig.nodes)
    assert book.with_usage(usage)["a"].max == {"cpu": 6000}
    rig.add(quota("a", "4", "8"))
    assert book.with_usage(usage)["a"].max == {"cpu": 8000}
    rig.objects[ElasticQuota].drop(quota("a"))
    assert book.with_usage(usage) == {}
