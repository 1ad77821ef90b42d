"""Replicas in coordinated leader election on an embedded cluster: the API server's controller selects the leader."""

import asyncio
from collections.abc import Callable

from moorage.common.clock import VirtualClock
from moorage.common.errors import LeadershipLost
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.records import Lease, LeaseCandidate
from moorage.kube.client.candidate import Candidacy
from moorage.kube.client.leader import LeaderElector, LeaseSettings
from moorage.kube.client.rest import ApiClient
from moorage.testing import Cluster, in_virtual_time

GATE = "CoordinatedLeaderElection=true"


class Replica:
    """A replica that records whether it leads."""

    def __init__(self, client: ApiClient, name: str, version: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock: VirtualClock = loop.clock
        settings = LeaseSettings(name, version=version)
        self.leads = False
        self.has_lost = False
        self.elector = LeaderElector(client, settings, clock=clock)
        self._tasks = [
            asyncio.create_task(Candidacy(client, settings, clock).run()),
            asyncio.create_task(self._elect()),
        ]

    async def _elect(self) -> None:
        try:
            await self.elector.run(self._work)
        except LeadershipLost:
            self.has_lost = True

    async def _work(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def holder(cluster: Cluster) -> Callable[[], str]:
    def found() -> str:
        lease = cluster.find(Lease, "kube-scheduler", "kube-system")
        return (lease.spec.holder_identity or "") if lease is not None else ""

    return found


@in_virtual_time
async def test_oldest_version_leads_and_the_next_takes_over() -> None:
    async with Cluster(nodes=0, scheduler=False, feature_gates=GATE) as cluster:
        held_by = holder(cluster)
        new = Replica(cluster.client, "new_1", "1.37.0")
        await cluster.wait_for(lambda: new.leads)
        assert held_by() == "new_1"

        old = Replica(cluster.client, "old_1", "1.36.0")
        await cluster.wait_for(lambda: old.leads, seconds=120)
        assert new.has_lost, "the former leader stops renewing before the next one starts"
        assert held_by() == "old_1"

        await new.stop()
        again = Replica(cluster.client, "new_2", "1.37.0")
        await cluster.sleep(30)
        assert (old.leads, again.leads) == (True, False)

        await old.stop()
        await cluster.wait_for(lambda: again.leads, seconds=60)
        assert held_by() == "new_2"
        await again.stop()


@in_virtual_time
async def test_deleted_candidate_is_recreated() -> None:
    async with Cluster(nodes=0, scheduler=False, feature_gates=GATE) as cluster:
        await cluster.sleep(30)
        assert holder(cluster)() == ""
        first = Replica(cluster.client, "one", "1.37.0")
        await cluster.wait_for(lambda: first.leads)
        path = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates/one"
        await cluster.client.request("DELETE", path)
        await cluster.wait_for(lambda: len(cluster.objects(LeaseCandidate)) == 1)
        await cluster.sleep(700)
        assert first.leads
        await first.stop()
