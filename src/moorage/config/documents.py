"""A YAML or JSON text as plain data, strictly: where it does not parse, and which fields it gives twice."""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from moorage.errors import ConfigError

MERGE_TAG: Final = "tag:yaml.org,2002:merge"
TIMESTAMP_TAG: Final = "tag:yaml.org,2002:timestamp"


#: One letter is a bool to Kubernetes' YAML, as in YAML 1.1; PyYAML knows only the longer spellings.
SHORT_BOOLS: Final = {"y": True, "Y": True, "n": False, "N": False}


class _Loader(yaml.CSafeLoader):
    """PyYAML's, except that dates stay text, as Kubernetes has none in YAML, and `y` and `n` are bools."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP_TAG]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    bool_values = {**yaml.CSafeLoader.bool_values, "y": True, "n": False}


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list(SHORT_BOOLS))


def read_document(text: str, source: str) -> tuple[Any, list[ConfigError]]:
    """Return the first document's data, and a problem for each field that it gives twice.

    Raises ConfigError, with the line, when the text is not YAML at all.
    """
    # JSON may be indented by tabs, YAML may not; inside JSON's strings a raw tab cannot occur.
    readable = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    try:
        loader = _Loader(readable)
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None, []
        # Before constructing, which writes merged keys into the nodes.
        repeated = [*_repeated_fields(node, "")]
        return loader.construct_document(node), repeated
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(source, error) from error
    except yaml.YAMLError as error:
        raise ConfigError(source, f"this is not YAML: {error}") from error


def field_path(parent: str, name: str) -> str:
    """Append a field's name to a path."""
    return f"{parent}.{name}" if parent else name


def _repeated_fields(node: yaml.Node, path: str) -> Iterator[ConfigError]:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated_fields(item, f"{path}[{index}]")
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            where = field_path(path, str(key.value))
            if key.value in seen and key.tag != MERGE_TAG:
                line = key.start_mark.line + 1
                yield ConfigError(where, f"duplicate field, again on line {line}", hint="keep one of them")
            seen.add(key.value)
            yield from _repeated_fields(value, where)


def _not_yaml(source: str, error: yaml.MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
    context = f" {error.context}" if error.context else ""
    return ConfigError(where, f"this is not YAML: {error.problem or 'it cannot be read'}{context}")
