"""Before a command that schedules imports what it is made of."""

import logging
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Final

BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
NUMPY_TEXTS: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")


def start_lightly(*, with_numpy: bool = True) -> None:
    """Spare the start what it can do without: looking for garbage among what stays, idle threads, and rich.

    What is logged goes to standard error from here on: standard output is for what was asked for.
    """
    from moorage.app.gc_tuning import collect_rarely, keep_freed_memory

    collect_rarely()
    keep_freed_memory()
    if with_numpy:
        import_numpy()
    _import_structlog()
    log_to_stderr()


def import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra, which we do not use, and without its help texts.

    There is a thread for each core, and all of them spin for a while before they sleep: half of what importing NumPy
    costs. Hanging texts on its functions is a seventh of the rest.
    """
    before = os.environ.get(BLAS_THREADS)
    os.environ[BLAS_THREADS] = before or "1"
    unread = [name for name in NUMPY_TEXTS if name not in sys.modules]
    sys.modules.update({name: ModuleType(name) for name in unread})
    try:
        import_module("numpy")
    finally:
        for name in unread:
            del sys.modules[name]
        # The programs that we start, for credentials, have the environment that we were given.
        if before is None:
            del os.environ[BLAS_THREADS]


def _import_structlog() -> None:
    """Import structlog without rich and colorama, which it takes along for coloured tracebacks that we do not print.

    Whoever draws with them imports them.
    """
    if "structlog" in sys.modules:
        return
    kept_out = [name for name in ("rich", "colorama") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept_out))  # type: ignore[arg-type]
    try:
        import_module("structlog")
    finally:
        for name in kept_out:
            del sys.modules[name]


def log_to_stderr() -> None:
    """Log only what goes wrong, and where it breaks nothing: `moorage scheduler` then configures its logs by flags."""
    import structlog

    from moorage.shortening import shorten_values

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
