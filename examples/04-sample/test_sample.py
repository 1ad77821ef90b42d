from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from sample import Sample

from moorage.scheduler.framework.logs import VERBOSITY
from moorage.testing import Cluster, check_plugin, in_virtual_time

DIRECTORY = Path(__file__).parent


def test_a_pod_is_filtered_and_bound(logged: list[MutableMapping[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VERBOSITY, "_known", {"sample": 3})

    @in_virtual_time
    async def story() -> None:
        async with Cluster(
            nodes=2, plugins=[Sample], config=DIRECTORY / "scheduler.yaml", cross_check=False
        ) as cluster:
            await cluster.apply(DIRECTORY / "pod.yaml")
            await cluster.wait_for(lambda: len(cluster.running()) == 1)

    story()
    lines = [line for line in logged if line["event"] in ("filter", "prebind")]
    assert [line["event"] for line in lines] == ["filter", "filter", "prebind"]
    assert lines[-1]["pods_there"] == 1


def test_both_forms_agree() -> None:
    check_plugin(Sample, examples=20, require_coverage=False)  # it rejects no node
