"""A YAML or JSON text as plain data, strictly: where it does not parse, and which fields it gives twice."""

from typing import Any

import yaml

from moorage.common.errors import ConfigError
from moorage.kube.api.documents import parse_documents


def read_document(text: str, source: str) -> tuple[Any, list[ConfigError]]:
    """Return the first document's data, and a problem for each field that it gives twice.

    Raises ConfigError, with the line, when the text is not YAML at all.
    """
    # JSON may be indented by tabs, YAML may not; inside JSON's strings a raw tab cannot occur.
    readable = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    try:
        document = next(parse_documents(readable), None)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(source, error) from error
    except yaml.YAMLError as error:
        raise ConfigError(source, f"this is not YAML: {error}") from error
    if document is None:
        return None, []
    repeated = [
        ConfigError(path, f"duplicate field, again on line {line}", hint="keep one of them")
        for path, line in document.repeated
    ]
    return document.data, repeated


def _not_yaml(source: str, error: yaml.MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
    context = f" {error.context}" if error.context else ""
    return ConfigError(where, f"this is not YAML: {error.problem or 'it cannot be read'}{context}")
