"""Validation of label keys, label values and extended resources, with Kubernetes' messages."""

import re
from typing import Final

_KEY: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_MAX_NAME, _MAX_SUBDOMAIN = 63, 253

_KEY_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '({_KEY})?')"
)


def label_key_problems(key: str) -> list[str]:
    """Return Kubernetes' messages for an invalid label key; an empty list if it is valid."""
    match key.split("/"):
        case [name]:
            return _name_problems(name)
        case [prefix, name]:
            return [*_prefix_problems(prefix), *_name_problems(name)]
        case _:
            rule = f"a valid label key {_KEY_RULE} with an optional DNS subdomain prefix and '/'"
            return [f"{rule} (e.g. 'example.com/MyName')"]


def label_value_problems(value: str) -> list[str]:
    """Return Kubernetes' messages for an invalid label value; an empty list if it is valid."""
    problems = [_too_long(_MAX_NAME)] if _length(value) > _MAX_NAME else []
    return problems if re.fullmatch(f"({_KEY})?", value) else [*problems, _VALUE_RULE]


def is_extended_resource(name: str) -> bool:
    """Return whether a valid label key names a resource outside of kubernetes.io."""
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith("requests."):
        return False
    return not label_key_problems(f"requests.{name}")


def _prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    problems = [f"prefix part {_too_long(_MAX_SUBDOMAIN)}"] if _length(prefix) > _MAX_SUBDOMAIN else []
    return problems if re.fullmatch(_SUBDOMAIN, prefix) else [*problems, f"prefix part {_SUBDOMAIN_RULE}"]


def _name_problems(name: str) -> list[str]:
    problems = []
    if not name:
        problems.append("name part must be non-empty")
    elif _length(name) > _MAX_NAME:
        problems.append(f"name part {_too_long(_MAX_NAME)}")
    return problems if re.fullmatch(_KEY, name) else [*problems, f"name part {_KEY_RULE}"]


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _length(text: str) -> int:
    return len(text.encode())
