"""Errors of the API with Kubernetes' codes, reasons and texts, and the Status objects that report them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

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
from moorage.kube.field_errors import MAX_VALUE_LENGTH, FieldError, invalid_value
from moorage.kube.resources import ServedResource

MAX_CAUSES: Final = 200
"""A Status lists at most this many causes."""


def error_status(error: ApiError) -> dict[str, Any]:
    """Return the Status object that reports an error to clients."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.token} if isinstance(error, Gone) and error.token else {},
        "status": "Failure",
        "message": str(error),
        "reason": error.reason,
        "details": _clip(error.details),
        "code": error.status,
    }
    if error.retry_after is not None:
        status["details"]["retryAfterSeconds"] = int(error.retry_after)
    return {key: content for key, content in status.items() if content not in ("", {}) or key == "metadata"}


def _clip(details: Any) -> Any:
    if isinstance(details, str):
        return shortened(details, MAX_VALUE_LENGTH)
    if isinstance(details, Mapping):
        return {key: _clip(content) for key, content in details.items()}
    if isinstance(details, list | tuple):
        return [_clip(item) for item in details[:MAX_CAUSES]]
    return details


def success_status(resource: ServedResource, name: str, uid: str) -> dict[str, Any]:
    """Return the Status object that reports a successful write."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    details = {key: text for key, text in details.items() if text}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _about(resource: ServedResource, name: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {key: content for key, content in details.items() if content}


def bad_request(message: str) -> ApiError:
    """Return the error for a malformed request."""
    return ApiError(message, status=400, reason="BadRequest")


def unauthorized() -> ApiError:
    """Return the error for a request without a valid token."""
    return Unauthorized("Unauthorized", status=401, reason="Unauthorized")


def path_not_found() -> ApiError:
    """Return the error for an unknown path."""
    message = "the server could not find the requested resource"
    return NotFound(message, status=404, reason="NotFound")


def no_process(pod: str, missing: str) -> ApiError:
    """Return the error for a request that needs the processes of a pod, such as its logs."""
    message = f'pod "{pod}" has no {missing}: this cluster has fake kubelets, which run no processes'
    return ApiError(message, status=400, reason="BadRequest")


def not_acceptable() -> ApiError:
    """Return the error for an unsupported response format."""
    message = "only the following media types are accepted: application/json"
    return ApiError(message, status=406, reason="NotAcceptable")


def method_not_allowed() -> ApiError:
    """Return the error for a verb that the resource does not support."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(message, status=405, reason="MethodNotAllowed")


def not_found(resource: ServedResource, name: str) -> NotFound:
    """Return the error for a missing object."""
    message = f'{resource.full_name} "{name}" not found'
    return NotFound(message, status=404, reason="NotFound", details=_about(resource, name))


def already_exists(resource: ServedResource, name: str) -> AlreadyExists:
    """Return the error for a name that is in use."""
    message = f'{resource.full_name} "{name}" already exists'
    return AlreadyExists(message, status=409, reason="AlreadyExists", details=_about(resource, name))


def conflict(resource: ServedResource, name: str, detail: str = "", subresource: str = "") -> Conflict:
    """Return the error for an object that was modified concurrently, or is in a state that forbids the operation."""
    detail = detail or ("the object has been modified; please apply your changes to the latest version and try again")
    part = f"/{subresource}" if subresource else ""
    subject = f"{resource.plural}{part}{f'.{resource.group}' if resource.group else ''}"
    message = f'Operation cannot be fulfilled on {subject} "{name}": {detail}'
    details = _about(resource, name, kind=f"{resource.plural}{part}")
    return Conflict(message, status=409, reason="Conflict", details=details)


def precondition_failed(resource: ServedResource, name: str, field: str, expected: str, actual: str) -> Conflict:
    """Return the error for a deletion with a UID or resourceVersion precondition that does not match."""
    became = "deleted and then recreated" if field == "UID" else "modified"
    detail = f"the {field} in the precondition ({expected}) does not match the {field} in record ({actual})"
    subject = f"{resource.name}{f'.{resource.group}' if resource.group else ''}"
    message = f'Operation cannot be fulfilled on {subject} "{name}": {detail}. The object might have been {became}'
    return Conflict(message, status=409, reason="Conflict", details=_about(resource, name, kind=resource.name))


def invalid_options(kind: str, cause: FieldError) -> ApiError:
    """Return the error for invalid options of a request. ``kind`` is the kind of the options, such as CreateOptions."""
    message = f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [cause._asdict()]}
    return ApiError(message, status=422, reason="Invalid", details=details)


def forbidden(resource: ServedResource, name: str, detail: str) -> Forbidden:
    """Return the error for an object that admission rejects."""
    message = f'{resource.full_name} "{name}" is forbidden: {detail}'
    return Forbidden(message, status=403, reason="Forbidden", details=_about(resource, name, causes=[]))


def invalid(resource: ServedResource, name: str, causes: Iterable[FieldError]) -> ApiError:
    """Return the error that lists every invalid field of an object."""
    errors = list(causes)
    lines = [f"{cause.field}: {cause.message}" for cause in errors]
    sentence = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    message = f'{resource.name}{f".{resource.group}" if resource.group else ""} "{name}" is invalid: {sentence}'
    details = _about(resource, name, causes=[cause._asdict() for cause in errors]) | {"kind": resource.name}
    return ApiError(message, status=422, reason="Invalid", details=details)


def version_required(resource: ServedResource, name: str) -> ApiError:
    """Return the error for an update without a resourceVersion, where the kind requires one."""
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    message = f'{resource.full_name} "{name}" is invalid: {cause.field}: {cause.message}'
    details = _about(resource, name, causes=[cause._asdict()]) | {"kind": resource.plural}
    return ApiError(message, status=422, reason="Invalid", details=details)


def expired(message: str, token: str = "") -> Gone:
    """Return the error for an expired resource version or continue token. ``token`` continues the list from now on."""
    error = Gone(message, status=410, reason="Expired")
    error.token = token
    return error


def version_too_large(requested: int, current: int) -> ApiError:
    """Return the error for a resource version from the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Too large resource version: {requested}, current: {current}"
    return ApiError(message, status=504, reason="Timeout", retry_after=1, details={"causes": [cause]})


def unsupported_media_type(supported: Iterable[str]) -> ApiError:
    """Return the error for an unsupported content type. It lists the supported ones."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
    return ApiError(message, status=415, reason="UnsupportedMediaType")


def eviction_blocked(budget: str, required: int, healthy: int) -> TooManyRequests:
    """Return the error for an eviction that would violate a disruption budget."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details = f"The disruption budget {budget} needs {required} healthy pods and has {healthy} currently"
    cause = {"reason": "DisruptionBudget", "message": details}
    return TooManyRequests(message, status=429, reason="TooManyRequests", details={"causes": [cause]})
