"""Validation of names, labels and numbers, with the API's messages."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.kube.field_errors import FieldError, invalid_value, invalid_values

MAX_PORT_NAME: Final = 15
MAX_DATA_KEY: Final = 253
MAX_LABEL: Final = 63
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = f"{_LABEL}(\\.{_LABEL})*"
_PERCENT: Final = "[0-9]+%"
_ENDS: Final = "and must start and end with an alphanumeric character"
_NAME_RULE: Final = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. "
    f"'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_LABEL_RULE: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS} (e.g. 'my-name',  "
    f"or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE: Final = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} (e.g. "
    f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    f"validation is '{_PERCENT}')"
)
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
POSITIVE: Final = "must be greater than zero"
IMMUTABLE: Final = "field is immutable"


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _too_long(text: str, most: int) -> Iterator[str]:
    if len(text) > most:
        yield f"must be no more than {most} characters"


def _too_many_bytes(text: str, most: int) -> Iterator[str]:
    # The API counts the bytes of all these texts, but only the messages about labels mention bytes.
    if len(text.encode()) > most:
        yield f"must be no more than {most} bytes"


def subdomain(text: str) -> Iterator[str]:
    """Yield the reasons why a text is not a DNS subdomain, the format of most names."""
    yield from _too_long(text, 253)
    if not _matches(_SUBDOMAIN, text):
        yield _SUBDOMAIN_RULE


def dns_label(text: str) -> Iterator[str]:
    """Yield the reasons why a text is not a DNS label, the format of names of namespaces, containers and volumes."""
    yield from _too_long(text, 63)
    if not _matches(_LABEL, text):
        yield "must not contain dots" if _matches(_SUBDOMAIN, text) else _LABEL_RULE


def qualified_name(text: str) -> Iterator[str]:
    """Yield the reasons why a text is not a qualified name or label key: a name with an optional DNS prefix."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        yield f"a valid label key {_NAME_RULE} {optional}"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {reason}" for reason in _too_many_bytes(prefix, 253))
        if not _matches(_SUBDOMAIN, prefix):
            yield f"prefix part {_SUBDOMAIN_RULE}"
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {reason}" for reason in _too_many_bytes(name, 63))
    if not _matches(_NAME, name):
        yield f"name part {_NAME_RULE}"


def label_value(text: str) -> Iterator[str]:
    """Yield the reasons why a text is not a label value."""
    yield from _too_many_bytes(text, 63)
    if text and not _matches(_NAME, text):
        yield _VALUE_RULE


def labels(content: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Check labels, or a selector in the form of a map."""
    for key, text in content.items():
        yield from invalid_values(path, key, qualified_name(key))
        yield from invalid_values(path, text, label_value(text))


def annotations(content: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Check the keys of annotations."""
    for key in content:
        yield from invalid_values(path, key, qualified_name(key.lower()))


def not_negative(data: Mapping[str, Any], path: str, *names: str) -> Iterator[FieldError]:
    """Check numbers that may be 0."""
    for name in names:
        if isinstance(data.get(name), int) and data[name] < 0:
            yield invalid_value(f"{path}.{name}", data[name], NOT_NEGATIVE)


def number_or_percent(value: Any, path: str) -> Iterator[FieldError]:
    """Check a number or percentage of pods."""
    if isinstance(value, str):
        if not _matches(_PERCENT, value):
            yield invalid_value(path, value, _PERCENT_RULE)
    elif isinstance(value, int) and value < 0:
        yield invalid_value(path, value, NOT_NEGATIVE)


def at_most_all(value: Any, path: str) -> Iterator[FieldError]:
    """Check that a percentage is one of something that can be taken away."""
    if isinstance(value, str) and _matches(_PERCENT, value):
        digits = value[:-1].lstrip("0")
        if len(digits) > 3 or int(digits or 0) > 100:
            yield invalid_value(path, value, "must not be greater than 100%")


def port_number(value: Any, path: str) -> Iterator[FieldError]:
    """Check a port, where it is a number."""
    if isinstance(value, int) and not 1 <= value <= 65535:
        yield invalid_value(path, value, "must be between 1 and 65535, inclusive")


def data_key(text: str) -> Iterator[str]:
    """Yield why a text is not a key of a ConfigMap or Secret."""
    if len(text) > MAX_DATA_KEY:
        yield f"must be no more than {MAX_DATA_KEY} characters"
    if re.fullmatch(r"[-._a-zA-Z0-9]+", text) is None:
        yield (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if text in (".", ".."):
        yield f"must not be '{text}'"
    elif text.startswith(".."):
        yield "must not start with '..'"


def alphabetic_label(text: str) -> Iterator[str]:
    """Yield why a text is not a label that starts with a letter (RFC 1035)."""
    if len(text) > MAX_LABEL:
        yield f"must be no more than {MAX_LABEL} bytes"
    if re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", text) is None:
        yield (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )


def port_name(text: str) -> Iterator[str]:
    """Yield why a text is not the name of a port of a container."""
    if len(text) > MAX_PORT_NAME:
        yield f"must be no more than {MAX_PORT_NAME} characters"
    if re.fullmatch(r"[-a-z0-9]+", text) is None:
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if re.search(r"[a-z]", text) is None:
        yield "must contain at least one letter (a-z)"
    if "--" in text:
        yield "must not contain consecutive hyphens"
    if text.startswith("-") or text.endswith("-"):
        yield "must not begin or end with a hyphen"


def is_ip_address(text: Any) -> bool:
    """Return whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
