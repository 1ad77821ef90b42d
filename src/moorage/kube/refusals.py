"""The API's ways to say no, with its own codes, reasons and words; and the Status object they are sent in."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from moorage.common.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from moorage.common.text import shortened
from moorage.kube.resources import ServedResource

MAX_SHOWN: Final = 4096
"""How much of a value is shown that may not be what it is."""
MAX_CAUSES: Final = 200
"""How many of the things that are wrong with an object are listed one by one."""


class Cause(NamedTuple):
    """One thing wrong with an object: the API's word for it, a sentence, and the path of the field."""

    reason: str
    message: str
    field: str


def shown(found: Any) -> str:
    """Write a value as messages do."""
    return shortened(msgspec.json.encode(found).decode(), MAX_SHOWN)


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


def too_many(field: str, found: int, most: int) -> Cause:
    """Say that a list is too long."""
    items = "item" if most == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {found}: must have at most {most} {items}", field)


def prohibited(field: str, why: str) -> Cause:
    """Say that a field may not be set, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def unknown(field: str, found: str, why: str = "") -> Cause:
    """Say that what a field names is not there."""
    return Cause("FieldValueNotFound", f"Not found: {shown(found)}{f': {why}' if why else ''}", field)


def each(field: str, found: Any, reasons: Iterable[str]) -> list[Cause]:
    """Say why a value may not be what it is, reason by reason."""
    return [invalid_value(field, found, why) for why in reasons]


def status_of(error: ApiError) -> dict[str, Any]:
    """Write an error as the Status object that clients read."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        "details": _bounded(error.details),
        "code": error.status,
    }
    if error.retry_after is not None:
        status["details"]["retryAfterSeconds"] = int(error.retry_after)
    return {key: content for key, content in status.items() if content not in ("", {}) or key == "metadata"}


def _bounded(details: Any) -> Any:
    if isinstance(details, str):
        return shortened(details, MAX_SHOWN)
    if isinstance(details, Mapping):
        return {key: _bounded(content) for key, content in details.items()}
    if isinstance(details, list | tuple):
        return [_bounded(item) for item in details[:MAX_CAUSES]]
    return details


def success(resource: ServedResource, name: str, uid: str) -> dict[str, Any]:
    """Write the Status object that says that something was done to an object."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    details = {key: text for key, text in details.items() if text}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _about(resource: ServedResource, name: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {key: content for key, content in details.items() if content}


def bad_request(message: str) -> ApiError:
    """Refuse what cannot be understood."""
    return ApiError(message, status=400, reason="BadRequest")


def unauthorized() -> ApiError:
    """Refuse somebody without the token."""
    return Unauthorized("Unauthorized", status=401, reason="Unauthorized")


def no_such_path() -> ApiError:
    """Refuse a path that nothing is served under."""
    message = "the server could not find the requested resource"
    return NotFound(message, status=404, reason="NotFound")


def nothing_runs(pod: str, what: str) -> ApiError:
    """Refuse what would need the processes of a pod."""
    message = f'pod "{pod}" has no {what}: this cluster has fake kubelets, its pods only say that they run'
    return ApiError(message, status=400, reason="BadRequest")


def not_acceptable() -> ApiError:
    """Refuse to answer in a form that there is not."""
    message = "only the following media types are accepted: application/json"
    return ApiError(message, status=406, reason="NotAcceptable")


def not_allowed() -> ApiError:
    """Refuse a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(message, status=405, reason="MethodNotAllowed")


def not_found(resource: ServedResource, name: str) -> NotFound:
    """Say that an object is not there."""
    message = f'{resource.full_name} "{name}" not found'
    return NotFound(message, status=404, reason="NotFound", details=_about(resource, name))


def already_exists(resource: ServedResource, name: str) -> AlreadyExists:
    """Say that the name is taken."""
    message = f'{resource.full_name} "{name}" already exists'
    return AlreadyExists(message, status=409, reason="AlreadyExists", details=_about(resource, name))


def conflict(resource: ServedResource, name: str, why: str = "", subresource: str = "") -> Conflict:
    """Say that the object has changed, or does not let this be done to it."""
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    part = f"/{subresource}" if subresource else ""
    subject = f"{resource.plural}{part}{f'.{resource.group}' if resource.group else ''}"
    message = f'Operation cannot be fulfilled on {subject} "{name}": {why}'
    details = _about(resource, name, kind=f"{resource.plural}{part}")
    return Conflict(message, status=409, reason="Conflict", details=details)


def not_the_one(resource: ServedResource, name: str, what: str, wanted: str, found: str) -> Conflict:
    """Say that an object is not the one, or not of the version, that was to be deleted."""
    became = "deleted and then recreated" if what == "UID" else "modified"
    why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found})"
    subject = f"{resource.name}{f'.{resource.group}' if resource.group else ''}"
    message = f'Operation cannot be fulfilled on {subject} "{name}": {why}. The object might have been {became}'
    return Conflict(message, status=409, reason="Conflict", details=_about(resource, name, kind=resource.name))


def bad_options(kind: str, cause: Cause) -> ApiError:
    """Refuse a request that is meant in a way there is not; ``kind`` is that of the options, such as CreateOptions."""
    message = f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [cause._asdict()]}
    return ApiError(message, status=422, reason="Invalid", details=details)


def forbidden(resource: ServedResource, name: str, why: str, causes: Iterable[Cause] = ()) -> Forbidden:
    """Say that admission does not let an object in."""
    message = f'{resource.full_name} "{name}" is forbidden: {why}'
    details = _about(resource, name, causes=[cause._asdict() for cause in causes])
    return Forbidden(message, status=403, reason="Forbidden", details=details)


def invalid(resource: ServedResource, name: str, causes: Iterable[Cause]) -> ApiError:
    """Say everything that is wrong with an object."""
    found = list(causes)
    lines = [f"{cause.field}: {cause.message}" for cause in found]
    sentence = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    message = f'{resource.name}{f".{resource.group}" if resource.group else ""} "{name}" is invalid: {sentence}'
    details = _about(resource, name, causes=[cause._asdict() for cause in found]) | {"kind": resource.name}
    return ApiError(message, status=422, reason="Invalid", details=details)


def needs_version(resource: ServedResource, name: str) -> ApiError:
    """Say that an object of this kind is not replaced by somebody who does not say which version they know."""
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    message = f'{resource.full_name} "{name}" is invalid: {cause.field}: {cause.message}'
    details = _about(resource, name, causes=[cause._asdict()]) | {"kind": resource.plural}
    return ApiError(message, status=422, reason="Invalid", details=details)


def expired(message: str) -> Gone:
    """Say that a version or a page is no longer known."""
    return Gone(message, status=410, reason="Expired")


def too_large_version(asked: int, current: int) -> ApiError:
    """Say that a version is yet to come."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Too large resource version: {asked}, current: {current}"
    return ApiError(message, status=504, reason="Timeout", retry_after=1, details={"causes": [cause]})


def unsupported_media_type(found: str, known: Iterable[str]) -> ApiError:
    """Say which content types would have been understood."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
    return ApiError(f"{message} (found {found!r})", status=415, reason="UnsupportedMediaType")


def disrupts(budget: str, needed: int, healthy: int) -> TooManyRequests:
    """Say that an eviction would take more pods than a budget allows."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details = f"The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
    cause = {"reason": "DisruptionBudget", "message": details}
    return TooManyRequests(message, status=429, reason="TooManyRequests", details={"causes": [cause]})
