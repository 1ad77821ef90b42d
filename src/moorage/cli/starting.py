"""Before a long-running command imports what it is made of."""

import sys
from importlib import import_module


def start_lightly() -> None:
    """Spare the start what it can do without: looking for garbage among what stays, and rich.

    structlog would take rich along, for coloured tracebacks that we do not print. Whoever draws with it imports it.
    """
    from moorage.app.garbage import collect_rarely

    collect_rarely()
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]
