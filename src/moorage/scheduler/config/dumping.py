"""Plain data as YAML, as Kubernetes prints it."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from moorage.kube.api.documents import SHORT_BOOLS

_LOOKALIKES: Final = tuple(f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null", "timestamp"))


def dump(view: Mapping[str, Any]) -> str:
    """Print plain data: keys sorted, lists not indented, nothing wrapped."""
    return yaml.dump(
        view, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=2**31 - 1, default_flow_style=False
    )


class _Dumper(yaml.CSafeDumper):
    """YAML with Go's choice of quotes."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    if "\n" in text:
        return dumper.represent_scalar(tag, text, style="|")
    # Strings that would be parsed as a number, a bool or null are double-quoted, as Go does.
    seems = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    needs_quotes = seems in _LOOKALIKES or text in SHORT_BOOLS
    return dumper.represent_scalar(tag, text, style='"' if needs_quotes else None)


_Dumper.add_representer(str, _text)
# Equal lists that are the same object must not become an anchor and an alias.
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]
