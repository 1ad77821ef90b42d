"""YAML and JSON texts as plain data, and plain data as Kubernetes prints it.

Imported on demand: a scheduler without a configuration file does not need PyYAML.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from moorage.common.errors import ConfigError, comment_hint
from moorage.kube.api.documents import SHORT_BOOLS, parse_documents

_LOOKALIKES: Final = tuple(f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null", "timestamp"))


def read_document(text: str, source: str) -> tuple[Any, list[ConfigError]]:
    """Return the first document's data, and a problem for each field that it gives twice.

    Raises ConfigError, with the line, when the text is not YAML.
    """
    # JSON may be indented by tabs, YAML may not. Inside JSON's strings a raw tab cannot occur.
    readable = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    try:
        document = next(parse_documents(readable), None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
        context = f" {error.context}" if error.context else ""
        problem = f"invalid YAML: {error.problem or 'it cannot be read'}{context}"
        raise ConfigError(location, problem, hint=comment_hint(text)) from error
    except yaml.YAMLError as error:
        raise ConfigError(source, f"invalid YAML: {error}") from error
    if document is None:
        return None, []
    repeated = [
        ConfigError(path, f"duplicate field, repeated on line {line}", hint="keep one of them")
        for path, line in document.repeated
    ]
    return document.data, repeated


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
