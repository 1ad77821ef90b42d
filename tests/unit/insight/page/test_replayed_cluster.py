"""Recorded runs on the page: what would help is looked for where it can be known."""

import asyncio

import pytest
from tests.unit.insight.page.clusters import SMALL, policy, replayed

from moorage.insight.page.replayed_cluster import ReplayedCluster, ReplayedRun
from moorage.insight.whatif.sources import LoadedCluster
from moorage.kube.manifests import to_documents


@pytest.mark.parametrize(("existing", "is_helped"), [(SMALL, True), ((), False)], ids=["a cluster", "a log alone"])
def test_changes_are_searched_if_the_nodes_are_known(existing: tuple[dict[str, object], ...], is_helped: bool) -> None:
    run = ReplayedRun("run", policy(), replayed(SMALL))

    async def go() -> bool:
        cluster = LoadedCluster(list(to_documents(existing, source="test")), "", honors_nominations=False)
        source = ReplayedCluster(cluster, [run], "test")
        await source.start()
        try:
            assert source.state(0, 1e9).groups
            return bool(source._suggestions)
        finally:
            await source.stop()

    assert asyncio.run(go()) is is_helped
