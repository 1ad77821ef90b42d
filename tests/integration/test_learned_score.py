"""LearnedScore in complete clusters: simulated, embedded, and with a hanging policy."""

from pathlib import Path
from typing import Any

import pytest

from moorage.cli.main import run
from moorage.contrib.learned_score.plugin import LearnedScore
from moorage.testing import Cluster, in_virtual_time

POLICIES = "tests.support.policies_on_trial"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {{multiPoint: {{enabled: [{{name: LearnedScore, weight: 100}}]}}}}
    pluginConfig:
      - {{name: LearnedScore, args: {{policy: "{policy}", timeLimit: {limit}}}}}
"""


def pod_manifest(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    metadata = {"name": f"pod-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@in_virtual_time
async def test_policy_scores_in_a_cluster() -> None:
    config = CONFIG.format(policy=f"{POLICIES}:snug", limit="30s")
    async with Cluster(nodes=2, shape="cpu=8", config=config) as cluster:
        await cluster.apply(*map(pod_manifest, range(4)))
        await cluster.wait_for(lambda: len(cluster.running()) == 4)
        assert len({pod.node_name for pod in cluster.pods()}) == 1, "the policy packs"


@in_virtual_time
async def test_hanging_policy_costs_its_time_limit_and_no_pod() -> None:
    config = CONFIG.format(policy=f"{POLICIES}:hangs", limit="100ms")
    async with Cluster(nodes=2, shape="cpu=8", config=config, cross_check=False) as cluster:
        await cluster.apply(*map(pod_manifest, range(4)))
        await cluster.wait_for(lambda: len(cluster.running()) == 4)
        fallbacks = cluster.plugin(LearnedScore).fallbacks
        slow, not_running = (fallbacks.value(reason=reason) for reason in ("slow", "not_running"))
        assert slow >= 1
        assert slow + not_running == 4
        assert len({pod.node_name for pod in cluster.pods()}) == 2, "the fallback spreads"


def test_unloadable_policy_is_reported_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG.format(policy="nowhere:policy", limit="1s"))
    assert run(["simulate", "-f", "examples/07-columns/cluster.yaml", "--config", str(config)]) != 0
    output = capsys.readouterr().err
    assert "the policy nowhere:policy cannot be imported: No module named 'nowhere'" in output
    assert "Traceback" not in output
