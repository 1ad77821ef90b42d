"""Times the phases of attempts, by extension point and result."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.engine.phases import PERMIT_WAIT_PHASE, F, Phase
from moorage.scheduler.framework.status import Code


def time_phase(run: F, phase: Phase, profile: str, registry: CellRegistry) -> F:
    """Return the function with its duration recorded; the wait on permit has a separate metric."""
    read_code, is_wait = phase.read_code, phase is PERMIT_WAIT_PHASE
    durations = registry["scheduler_framework_extension_point_duration_seconds"]
    permit_waits = registry["scheduler_permit_wait_duration_seconds"]

    def find_cell(code: Code) -> Callable[[float], None]:
        if is_wait:
            return permit_waits.histogram(code.label).observe
        return durations.histogram(phase.point.name, code.label, profile).observe

    def record_wait(seconds: float) -> None:
        find_cell(Code.SUCCESS)(seconds)

    # A dozen phases run for every pod: success, the usual case, makes no calls but those of the clock. A histogram of
    # waits appears with the first wait.
    record_success = record_wait if is_wait else find_cell(Code.SUCCESS)

    def run_timed(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = run(*arguments, **keywords)
        except MoorageError:
            find_cell(Code.ERROR)(perf_counter() - began)
            raise
        code = Code.SUCCESS if result is None or read_code is None else read_code(result)
        (record_success if code is Code.SUCCESS else find_cell(code))(perf_counter() - began)
        return result

    async def await_timed(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = await run(*arguments, **keywords)
        except MoorageError:
            find_cell(Code.ERROR)(perf_counter() - began)
            raise
        code = Code.SUCCESS if result is None or read_code is None else read_code(result)
        (record_success if code is Code.SUCCESS else find_cell(code))(perf_counter() - began)
        return result

    timed: Any = await_timed if phase.is_async else run_timed
    return timed  # type: ignore[no-any-return]  # it has the signature of ``run``
