"""Before a command that schedules imports what it is made of."""

import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
NUMPY_TEXTS: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
NUMPY_TYPES: Final = "numpy._typing"


def start_lightly(*, with_numpy: bool = True) -> None:
    """Spare the start what it can do without: looking for garbage among what stays, idle threads, and rich.

    What is logged goes to standard error from here on: standard output is for what was asked for.
    """
    from moorage.scheduler.daemon.gc_tuning import collect_rarely, keep_freed_memory

    collect_rarely()
    keep_freed_memory()
    if with_numpy:
        import_numpy()
    # They are for coloured tracebacks, which we do not print, for contexts of greenlets, and for Pythons before ours.
    _import_without("structlog", "rich", "colorama", "greenlet")
    _import_without("msgspec", "typing_extensions")
    log_to_stderr()


def import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra, which we do not use, its help texts, and its types.

    There is a thread for each core, and all of them spin for a while before they sleep: half of what importing NumPy
    costs. Hanging texts on its functions is a seventh of the rest, and the types of annotations are a quarter.
    """
    before = os.environ.get(BLAS_THREADS)
    os.environ[BLAS_THREADS] = before or "1"
    unread = {name: ModuleType(name) for name in NUMPY_TEXTS} | {NUMPY_TYPES: _NumpyTypes()}
    unread = {name: module for name, module in unread.items() if name not in sys.modules}
    sys.modules.update(unread)
    try:
        import_module("numpy")
    finally:
        for name, module in unread.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        # The programs that we start, for credentials, have the environment that we were given.
        if before is None:
            del os.environ[BLAS_THREADS]


class _NumpyTypes(ModuleType):
    """Stands for the types of NumPy's annotations while it is imported; for more than an array it gets the real ones.

    Later imports, by ``numpy.typing``, find the real ones.
    """

    NDArray = list

    def __init__(self) -> None:
        super().__init__(NUMPY_TYPES)
        numpy = find_spec("numpy")
        # A package: whatever stands in it is imported as ever.
        self.__path__ = [f"{home}/_typing" for home in (numpy and numpy.submodule_search_locations) or ()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(NUMPY_TYPES) is self:
            del sys.modules[NUMPY_TYPES]
        return getattr(import_module(NUMPY_TYPES), name)


def _import_without(name: str, *others: str) -> None:
    """Import a library without others, which it takes along if they are there; whoever needs those imports them."""
    if name in sys.modules:
        return
    kept_out = [other for other in others if other not in sys.modules]
    sys.modules.update(dict.fromkeys(kept_out))  # type: ignore[arg-type]
    try:
        import_module(name)
    finally:
        for other in kept_out:
            del sys.modules[other]


def log_to_stderr() -> None:
    """Log only what goes wrong, and where it breaks nothing: `moorage scheduler` then configures its logs by flags."""
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
