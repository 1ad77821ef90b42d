"""Lazy package exports: a package exports names that are imported on first use (PEP 562).

::

    if TYPE_CHECKING:
        from moorage.area.module import Name
    else:
        __getattr__, __dir__ = lazy_exports(__name__, {"module": ("Name",)})

The type checker sees ordinary imports, so it reports unknown names. At run time, a name costs nothing until it is used.
``__all__`` is set as well; a package that does not define ``__all__`` needs ``implicit_reexport`` of mypy.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package. ``exports`` maps its modules to the exported names."""
    modules = {name: f"{package}.{module}" for module, names in exports.items() for name in names}
    namespace = vars(sys.modules[package])
    namespace["__all__"] = sorted(modules)

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(modules[name]), name)
        return value

    return get, lambda: sorted({*namespace, *modules})
