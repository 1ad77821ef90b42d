"""Anonymized clusters: other names, the same decisions."""

from typing import Any

import pytest
from tests.conformance.generator import generate
from tests.unit.insight.explain.clusters import pod
from tests.unit.insight.snapshots.clusters import FAST, WORKLOADS, read, secret_workload

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.simulation.simulation import simulate
from moorage.insight.snapshots.anonymizer import Anonymizer
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster, in_virtual_time


@pytest.mark.parametrize("number", range(24))
def test_anonymized_cluster_has_the_same_decisions(number: int) -> None:
    """The same pods go to the same nodes, under other names."""
    policy = load_policy(collect_plugins())
    case = generate(f"names/{number}", features=frozenset({"volumes", "devices"}))
    anonymizer = Anonymizer()
    renamed = anonymizer.anonymized(case.objects)

    def decisions(contents: Any) -> list[Any]:
        return DryRun(cluster_from_documents(to_documents(contents, source="here")), policy).run()

    for was, now in zip(decisions(case.objects), decisions(renamed), strict=True):
        namespace, _, name = was.pod.partition("/")
        assert now.pod == f"{anonymizer.name(namespace)}/{anonymizer.name(name)}"
        if "error" in (was.result, now.result):
            return  # device names decide whether the allocator checks a broken or a suitable device first
        assert now.result == was.result
        if len(was.tied) < 2:
            assert now.node == (anonymizer.name(was.node) if was.node else "")


def settled_workloads() -> list[dict[str, Any]]:
    """Workloads with all their pods, as the controllers of a cluster have made them."""
    contents: list[dict[str, Any]] = []

    @in_virtual_time
    async def settle() -> None:
        async with Cluster(nodes=2) as cluster:
            await cluster.apply(FAST, *(secret_workload(kind, kind.lower()) for kind in WORKLOADS))
            await cluster.wait_for(lambda: len(cluster.running()) == len(WORKLOADS) + 1)  # of daemons there are two
            contents.extend((await read_cluster(cluster.client)).contents)

    settle()
    return contents


def test_anonymized_workloads_remain_stable() -> None:
    """Controllers neither create nor delete pods: names and labels still match, and times are still valid."""
    renamed = Anonymizer().anonymized(settled_workloads())
    ran = simulate(cluster_from_documents(to_documents(renamed, source="here")), load_policy(collect_plugins()))
    assert ran.decisions == []


def test_anonymized_gangs_remain_gangs() -> None:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"moorage.io/gang": "team-ring", "moorage.io/gang-size": "3"}
    (pod_content,) = (content for content in read(waits).contents if content["kind"] == "Pod")
    assert pod_content["metadata"]["annotations"] == waits["metadata"]["annotations"]
    (renamed,) = Anonymizer().anonymized([pod_content])
    gang = renamed["metadata"]["annotations"]
    assert gang["moorage.io/gang-size"] == "3"
    assert gang["moorage.io/gang"] != "team-ring"
