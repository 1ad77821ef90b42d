"""Field errors with Kubernetes' reasons and texts (apimachinery's ``field.Error``).

The API server reports them as the causes of a Status, the scheduler as problems of its configuration.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from moorage.common.text import shortened

MAX_VALUE_LENGTH: Final = 4096
"""Longer values are shortened in messages."""


class FieldError(NamedTuple):
    """One invalid field: the machine-readable reason, the message and the path of the field."""

    reason: str
    message: str
    field: str


def format_value(value: Any) -> str:
    """Format a value as compact JSON for a message."""
    return shortened(msgspec.json.encode(value).decode(), MAX_VALUE_LENGTH)


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """Return the error for a malformed value or a value out of range."""
    return FieldError("FieldValueInvalid", f"Invalid value: {format_value(value)}: {detail}", field)


def invalid_values(field: str, value: Any, details: Iterable[str]) -> list[FieldError]:
    """Return one error for each problem of a value."""
    return [invalid_value(field, value, detail) for detail in details]


def required_value(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing or empty value."""
    return FieldError("FieldValueRequired", f"Required value{_suffix(detail)}", field)


def unsupported_value(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error for a value outside of an enumeration."""
    choices = ", ".join(map(format_value, supported))
    message = f"Unsupported value: {format_value(value)}: supported values: {choices}"
    return FieldError("FieldValueNotSupported", message, field)


def duplicate_value(field: str, value: Any, detail: str = "") -> FieldError:
    """Return the error for a value that must be unique."""
    return FieldError("FieldValueDuplicate", f"Duplicate value: {format_value(value)}{_suffix(detail)}", field)


def too_many_items(field: str, count: int, limit: int) -> FieldError:
    """Return the error for a list that is too long."""
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", field)


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error for a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", f"Forbidden: {detail}", field)


def value_not_found(field: str, value: str, detail: str = "") -> FieldError:
    """Return the error for a reference to an object that does not exist."""
    return FieldError("FieldValueNotFound", f"Not found: {format_value(value)}{_suffix(detail)}", field)


def _suffix(detail: str) -> str:
    return f": {detail}" if detail else ""
