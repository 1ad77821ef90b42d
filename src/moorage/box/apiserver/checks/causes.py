"""The ways in which a field can be wrong, as the API puts them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.box.apiserver.refusals import Cause


def shown(found: Any) -> str:
    """Write a value as messages do."""
    return msgspec.json.encode(found).decode()


def invalid_value(field: str, found: Any, why: str) -> Cause:
    """Say that a field has content it may not have."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(found)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    """Say that a field is missing."""
    return Cause("FieldValueRequired", f"Required value{f': {why}' if why else ''}", field)


def not_supported(field: str, found: Any, known: Iterable[str]) -> Cause:
    """Say which words a field may have."""
    words = ", ".join(f'"{word}"' for word in known)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(found)}: supported values: {words}", field)


def duplicate(field: str, found: Any, why: str = "") -> Cause:
    """Say that something is there twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(found)}{f': {why}' if why else ''}", field)


def prohibited(field: str, why: str) -> Cause:
    """Say that a field may not be set, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def unknown(field: str, found: str, why: str = "") -> Cause:
    """Say that what a field names is not there."""
    return Cause("FieldValueNotFound", f"Not found: {shown(found)}{f': {why}' if why else ''}", field)


def each(field: str, found: Any, reasons: Iterable[str]) -> list[Cause]:
    """Say why a value may not be what it is, reason by reason."""
    return [invalid_value(field, found, why) for why in reasons]
