"""Preparations of a command that schedules, before it imports the scheduler."""

import logging
import os
import sys
from importlib import import_module
from typing import Final

BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"


def start_lightly(*, with_numpy: bool = True) -> None:
    """Make the start fast: no garbage collection of long-lived objects, no idle threads, no rich.

    From here on, logs go to standard error: standard output is for results.
    """
    from moorage.common.memory import relax_gc, retain_freed_memory

    relax_gc()
    retain_freed_memory()
    if with_numpy:
        import_numpy()
    # structlog uses rich for colored tracebacks, which we do not print. msgspec uses typing_extensions on old Pythons.
    _import_without("structlog", "rich", "colorama", "greenlet")
    _import_without("msgspec", "typing_extensions")
    log_to_stderr()


def import_numpy() -> None:
    """Import NumPy without threads for its linear algebra, which we do not use.

    OpenBLAS starts one thread per core, and all of them spin for a while: half of the cost of importing NumPy.
    """
    before = os.environ.get(BLAS_THREADS)
    os.environ[BLAS_THREADS] = before or "1"
    try:
        import_module("numpy")
    finally:
        # Programs that we start, such as credential plugins, get the original environment.
        if before is None:
            del os.environ[BLAS_THREADS]


def _import_without(name: str, *optional: str) -> None:
    """Import a library without its optional dependencies. Other modules can still import those."""
    if name in sys.modules:
        return
    absent_modules = [dependency for dependency in optional if dependency not in sys.modules]
    sys.modules.update(dict.fromkeys(absent_modules))  # type: ignore[arg-type]
    try:
        import_module(name)
    finally:
        for dependency in absent_modules:
            del sys.modules[dependency]


def log_to_stderr() -> None:
    """Log warnings and errors to standard error; `moorage scheduler` then configures its logs by flags."""
    import structlog

    from moorage.common.text import shorten_values

    def to_stderr(*_: object) -> "structlog.PrintLogger":
        return structlog.PrintLogger(sys.stderr)

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            shorten_values,
            structlog.processors.TimeStamper("%Y-%m-%d %H:%M:%S", utc=False),
            # Plain tracebacks: those of structlog show local variables, which may be secret.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=to_stderr,
        cache_logger_on_first_use=False,
    )
