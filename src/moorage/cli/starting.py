"""Start-up of commands that schedule: garbage collection, NumPy and logging."""

import logging
import os
import sys
from importlib import import_module
from typing import Final

BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"


def start_lightly(*, with_numpy: bool = True) -> None:
    """Tune garbage collection and memory, import NumPy without idle threads, and log to standard error."""
    from moorage.scheduler.daemon.gc_tuning import collect_rarely, keep_freed_memory

    collect_rarely()
    keep_freed_memory()
    if with_numpy:
        import_numpy()
    # structlog uses rich and colorama for coloured tracebacks, which are not printed; importing rich costs 50 ms.
    _import_without("structlog", "rich", "colorama", "greenlet")
    _import_without("msgspec", "typing_extensions")
    log_to_stderr()


def import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra, which the scheduler does not use.

    NumPy starts a thread per core, and each spins before it sleeps: half of the cost of the import.
    """
    before = os.environ.get(BLAS_THREADS)
    os.environ[BLAS_THREADS] = before or "1"
    try:
        import_module("numpy")
    finally:
        # Child processes, such as credential plugins, get the original environment.
        if before is None:
            del os.environ[BLAS_THREADS]


def _import_without(name: str, *optional: str) -> None:
    """Import a library without its optional dependencies; other modules can still import those."""
    if name in sys.modules:
        return
    hidden = [module for module in optional if module not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import_module(name)
    finally:
        for module in hidden:
            del sys.modules[module]


def log_to_stderr() -> None:
    """Log warnings and errors to standard error; `moorage scheduler` configures its logs by flags later."""
    import structlog

    from moorage.common.text import shorten_values

    def to_stderr(*_: object) -> "structlog.PrintLogger":
        return structlog.PrintLogger(sys.stderr)

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            shorten_values,
            structlog.processors.TimeStamper("%Y-%m-%d %H:%M:%S", utc=False),
            # Plain tracebacks: structlog's own show local variables, and with them whatever is secret.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=to_stderr,
        cache_logger_on_first_use=False,
    )
