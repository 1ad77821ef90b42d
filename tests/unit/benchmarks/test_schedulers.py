from pathlib import Path

import pytest
from benchmarks.live import session

ROOT = Path(__file__).parents[3]


def test_another_checkout_can_be_measured() -> None:
    options = session.parser("Measure.", nodes="10").parse_args(["--schedulers", f"moorage,moorage@{ROOT}"])
    assert options.schedulers == ["moorage", f"moorage@{ROOT}"]


@pytest.mark.parametrize("text", ["volcano", "moorage@/nowhere", "moorage,kube", "kube-scheduler@/tmp"])
def test_unknown_scheduler_is_rejected(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        session.parser("Measure.", nodes="10").parse_args(["--schedulers", text])
    assert "moorage@/another/checkout" in capsys.readouterr().err
