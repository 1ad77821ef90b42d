"""The code that a phase reports for its result."""

from types import SimpleNamespace
from typing import Any

import pytest

from moorage.scheduler.engine import phases
from moorage.scheduler.framework.status import Code, Status

REJECTED = Status.unschedulable("full")
RESULTS: dict[str, tuple[phases.Phase, Any, Code]] = {
    "pre-filters that continue": (phases.PRE_FILTER_PHASE, SimpleNamespace(rejection=None), Code.SUCCESS),
    "pre-filters that reject": (phases.PRE_FILTER_PHASE, SimpleNamespace(rejection=REJECTED), Code.UNSCHEDULABLE),
    "post-filters": (phases.POST_FILTER_PHASE, SimpleNamespace(code=Code.ERROR), Code.ERROR),
    "reserve rejects": (phases.RESERVE_PHASE, REJECTED, Code.UNSCHEDULABLE),
    "permit rejects": (phases.PERMIT_PHASE, REJECTED, Code.UNSCHEDULABLE),
    "permit waits": (phases.PERMIT_PHASE, {"Gang": 30.0}, Code.WAIT),
    "a placement is infeasible": (phases.PLACEMENT_FEASIBLE_PHASE, REJECTED, Code.UNSCHEDULABLE),
    "placements": (phases.GENERATE_PLACEMENTS_PHASE, [], Code.SUCCESS),
    "bind fails": (phases.BIND_PHASE, Status.error("no"), Code.ERROR),
}


@pytest.mark.parametrize(("phase", "result", "code"), RESULTS.values(), ids=RESULTS)
def test_the_code_of_a_result_is_read(phase: phases.Phase, result: Any, code: Code) -> None:
    assert phase.read_code is not None
    assert phase.read_code(result) is code


def test_hooks_without_observers_change_nothing() -> None:
    assert phases.NO_HOOKS.wrap(len, phases.FILTER_PHASE) is len
    assert phases.NO_HOOKS.on_totals is None
