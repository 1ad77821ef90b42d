"""Loading of policies."""

from base64 import b64decode
from pathlib import Path

import pytest
from tests.unit.contrib.learned_score.policy_builders import (
    NODES,
    PATIENT,
    POD,
    POLICIES,
    UNLIMITED,
    counted,
    started,
)

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.contrib.learned_score.plugin import LearnedScore
from moorage.contrib.learned_score.policies import UnusablePolicy
from moorage.scheduler.config.contrib_args import LearnedScoreArgs
from moorage.testing.rig import SCORE_FORMS, Rig, run_score

UNUSABLE = {
    "nowhere:policy": "cannot be imported: No module named 'nowhere'",
    f"{POLICIES}:fulest": "has no 'fulest'",
    f"{POLICIES}:number": "is 7, which cannot be called",
    "missing.onnx": "the policy missing.onnx: the file does not exist",
}


@pytest.mark.parametrize(("policy", "problem"), UNUSABLE.items(), ids=UNUSABLE)
def test_unloadable_policy_is_reported_at_the_start(policy: str, problem: str) -> None:
    if policy.endswith(".onnx"):
        pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'moorage[onnx]'")
    plugin = LearnedScore(args=LearnedScoreArgs(policy, PATIENT), handle=Rig(*NODES))
    with pytest.raises(UnusablePolicy) as failure:
        run_virtual(plugin.start(), VirtualClock())
    assert problem in str(failure.value)


MODEL = (
    "CAgSADqTAQogCgVub2RlcwoHd2VpZ2h0cxIGc2NvcmVzIgZNYXRNdWwSB2Z1bGxlc3QqMQgICAEQASIgAAAAAAAAAAAAAIC/AAAAAAAAAAAAAAAA"
    "AAAAAAAAAABCB3dlaWdodHNaGAoFbm9kZXMSDwoNCAESCQoDEgFuCgIICGIZCgZzY29yZXMSDwoNCAESCQoDEgFuCgIIAUIECgAQDQ=="
)
"""The same as `fullest`, as ONNX: nodes (n × 8) times weights (8 × 1); the third weight is -1."""


def test_a_policy_from_an_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'moorage[onnx]'")
    file = tmp_path / "policy.onnx"
    file.write_bytes(b64decode(MODEL))
    with started(str(file)) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert counted(plugin) == {}
    with started(str(file), UNLIMITED) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(UnusablePolicy, match="cannot be read"):
        LearnedScore(args=LearnedScoreArgs(str(broken), UNLIMITED), handle=rig)
