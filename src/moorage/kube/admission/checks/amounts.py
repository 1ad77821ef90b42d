"""Validation of resource requests and limits."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.kube.admission.checks.names import NOT_NEGATIVE, qualified_name
from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, invalid_values, required_value, value_not_found

STANDARD: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
HUGE: Final = "hugepages-"


def resources(requirements: Data, path: str) -> Iterator[FieldError]:
    """Check the requests and limits of a container."""
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{path}.requests[{name}]")
        yield from _within_limit(name, amount, limits, path)


def _amount(name: str, amount: Any, path: str) -> Iterator[FieldError]:
    yield from invalid_values(path, name, qualified_name(name))
    if "/" not in name and not _is_standard(name):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for containers")
    yield from not_less_than_nothing(amount, path)
    if not _is_standard(name) and nano_value(amount) % NANO:
        yield invalid_value(path, str(amount), "must be an integer")


def not_less_than_nothing(amount: Any, path: str) -> Iterator[FieldError]:
    """Check that an amount is not negative."""
    if nano_value(amount) < 0:
        yield invalid_value(path, str(amount), NOT_NEGATIVE)


def _is_standard(name: str) -> bool:
    return name in STANDARD or name.startswith(HUGE)


def _within_limit(name: str, amount: Any, limits: Data, path: str) -> Iterator[FieldError]:
    is_shared = name in STANDARD
    if name not in limits:
        if not is_shared and ("/" in name or name.startswith(HUGE)):
            yield required_value(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = limits[name]
    if not is_shared and nano_value(amount) != nano_value(limit):
        why = f"must be equal to {name} limit of {limit}"
        yield invalid_value(f"{path}.requests", str(amount), why)
    elif is_shared and nano_value(amount) > nano_value(limit):
        why = f"must be less than or equal to {name} limit of {limit}"
        yield invalid_value(f"{path}.requests", str(amount), why)


def claims_used(requirements: Data, claim_names: set[str], path: str) -> Iterator[FieldError]:
    """Check that a container uses claims that its pod has."""
    for number, claim in enumerate(requirements.get("claims") or ()):
        if claim.get("name") not in claim_names:
            why = "must be one of the names in pod.spec.resourceClaims" + ("" if claim_names else " which is empty")
            yield value_not_found(f"{path}.claims[{number}]", claim.get("name", ""), why)
