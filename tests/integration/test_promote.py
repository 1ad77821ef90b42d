"""`moorage promote` on the ConfigMap of a cluster, through its API."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.cli.main import run
from moorage.testing import Cluster
from tests.unit.cli.test_promote import IN_CHARGE, SHADOW

PATH = "/api/v1/namespaces/kube-system/configmaps"


def test_config_map_is_promoted_and_reverted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        async with Cluster(nodes=1) as cluster:
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(cluster.kubeconfig))

            async def promote(*more: str) -> int:
                where = ("--config-map", "kube-system/moorage", "--kubeconfig", str(kubeconfig))
                return await asyncio.to_thread(run, ["promote", *where, *more])

            async def data() -> Any:
                return msgspec.json.decode(await cluster.client.request("GET", f"{PATH}/moorage"))["data"]

            assert await promote() == 2
            assert "the ConfigMap does not exist" in capsys.readouterr().err
            content = {"metadata": {"name": "moorage"}, "data": {"config.yaml": IN_CHARGE}}
            await cluster.client.request("POST", PATH, msgspec.json.encode(content))
            assert await promote() == 2
            assert "no key 'shadow.yaml'" in capsys.readouterr().err

            combined = {"data": {"shadow.yaml": SHADOW}}
            merge = "application/merge-patch+json"
            await cluster.client.request("PATCH", f"{PATH}/moorage", msgspec.json.encode(combined), merge)
            assert await promote() == 0
            assert "+        weight: 5" in capsys.readouterr().out
            assert (await data())["config.yaml"].startswith(SHADOW)
            assert (await data())["config.yaml.previous"] == IN_CHARGE
            assert await promote("--undo") == 0
            assert await data() == {"config.yaml": IN_CHARGE, "shadow.yaml": SHADOW}
            assert await promote("--undo") == 2
            assert "nothing to undo" in capsys.readouterr().err

    asyncio.run(story())
