"""Slices of devices."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value

VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
"""The fields of which an attribute has one."""


def resource_slice(data: Data) -> Iterator[FieldError]:
    """Check that every attribute has a value: one of a feature that is off was dropped."""
    for number, device in enumerate((data.get("spec") or {}).get("devices") or ()):
        for name, attribute in (device.get("attributes") or {}).items():
            if not any(key in attribute for key in VALUES):
                names = ", ".join(f"`{value}`" for value in VALUES)
                yield invalid_value(f"spec.devices[{number}].attributes[{name}]", "", f"must specify one of: {names}")
