"""The comparison of two configurations in the shadow's process: holds of plugins."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from moorage import Handle, Hold, Pod, ReservePlugin
from moorage.cluster import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.common.clock import SteadyClock
from moorage.insight.shadow.messages import AGREES, DecisionRequest
from moorage.insight.shadow.shadow_worker import ShadowCluster
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy
from moorage.testing import make_node, make_pod


class Holding(ReservePlugin):
    """Holds two of four cores for pods with the label owner."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.holds: list[Hold] = []

    async def start(self) -> None:
        self.holds = [self.handle.hold("node", {"cpu": "2"})]

    def usable_holds(self, pod: Pod) -> Iterable[Hold]:
        return self.holds if "owner" in pod.labels else ()

    def reserve(self, *_: Any) -> None: ...

    def unreserve(self, *_: Any) -> None: ...


PODS = {
    "a pod that fits next to the hold": (make_pod("p", requests={"cpu": "2"}), "node"),
    "a pod that needs the held cores": (make_pod("p", requests={"cpu": "3"}), ""),
    "a pod that may use the hold": (make_pod("p", requests={"cpu": "4"}, labels={"owner": "yes"}), "node"),
}


def policy() -> Policy:
    return load_policy(collect_plugins([Holding]), enabled=[Holding])


@pytest.mark.parametrize(("pod", "node"), PODS.values(), ids=PODS)
def test_shadow_counts_the_holds_of_each_configuration_once(pod: Pod, node: str) -> None:
    async def compare() -> None:
        offline = OfflineScheduler(search_all_nodes(policy()), DiscardingApi(), SteadyClock())
        in_charge = offline.scheduler.build_profiles(policy().config, policy().registry)
        offline.load([make_node("node"), pod])
        await offline.start()
        await in_charge.lifecycle.start()
        cluster = ShadowCluster(offline, in_charge)
        comparison = cluster.compare(DecisionRequest(1, pod.key, node, ""))
        assert comparison is not None
        assert (comparison.result, comparison.shadow_node) == (AGREES, node)
        other = cluster.compare(DecisionRequest(2, pod.key, "elsewhere" if node else "node", ""))
        assert other is not None
        assert other.in_charge.keys() == {"elsewhere", "node"} if node else {"node"}
        assert all(entry.is_rejected != bool(node) for name, entry in other.in_charge.items() if name == "node")
        await offline.close()
        await in_charge.lifecycle.close()

    asyncio.run(compare())


@pytest.mark.parametrize(("pod", "node"), PODS.values(), ids=PODS)
def test_session_does_not_count_holds_that_the_pod_may_use(pod: Pod, node: str) -> None:
    documents = to_documents(
        [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node"},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "labels": dict(pod.labels)},
                "spec": {
                    "containers": [
                        {"name": "a", "image": "a", "resources": {"requests": {"cpu": f"{pod.requests['cpu']}m"}}}
                    ]
                },
            },
        ],
        source="here",
    )
    with Session(documents, policy()) as session:
        assert session.try_pod("default/p").node == node
        assert [row["fits"] for row in session.filter("default/p")] == [bool(node)]
