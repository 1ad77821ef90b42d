"""Optional services that flags select."""

import pytest
from tests.support.options import load_options

from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.services import DecisionLogService, TracingService, own_services

SELECTED = {
    "no flag": ([], []),
    "the decision log": (["--decision-log=lines"], [DecisionLogService]),
    "tracing": (["--tracing-endpoint=http://localhost:4318"], [TracingService]),
}


@pytest.mark.parametrize(("flags", "services"), SELECTED.values(), ids=SELECTED)
def test_flags_select_services(flags: list[str], services: list[object]) -> None:
    assert [*own_services(load_options(flags))] == services


def test_limits_of_the_decision_log_are_checked() -> None:
    options = load_options(["--decision-log=lines", "--decision-log-max-size=1Ki"])
    with pytest.raises(InputError, match="--decision-log-max-size: 1024 bytes is too small"):
        DecisionLogService(options, Instruments(CellRegistry(), VirtualClock()))
