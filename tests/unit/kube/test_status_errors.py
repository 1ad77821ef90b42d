"""Status objects: codes, reasons and texts of kube-apiserver."""

from typing import Any

import pytest

from moorage.common.errors import ApiError
from moorage.kube import status_errors as errors
from moorage.kube.field_errors import invalid_value, required_value
from moorage.kube.resources import Resources

DEPLOYMENTS = Resources().find("apps", "v1", "deployments")
assert DEPLOYMENTS is not None
ABOUT = {"name": "web", "group": "apps", "kind": "deployments"}
CAUSE = {"reason": "FieldValueRequired", "message": "Required value", "field": "spec"}
ERRORS: dict[str, tuple[ApiError, int, str, str, dict[str, Any]]] = {
    "a missing object": (
        errors.not_found(DEPLOYMENTS, "web"),
        404,
        "NotFound",
        'deployments.apps "web" not found',
        ABOUT,
    ),
    "a name in use": (
        errors.already_exists(DEPLOYMENTS, "web"),
        409,
        "AlreadyExists",
        'deployments.apps "web" already exists',
        ABOUT,
    ),
    "a concurrent change of a subresource": (
        errors.conflict(DEPLOYMENTS, "web", "busy", "scale"),
        409,
        "Conflict",
        'Operation cannot be fulfilled on deployments/scale.apps "web": busy',
        ABOUT | {"kind": "deployments/scale"},
    ),
    "another UID": (
        errors.precondition_failed(DEPLOYMENTS, "web", "UID", "1", "2"),
        409,
        "Conflict",
        'Operation cannot be fulfilled on Deployment.apps "web": the UID in the precondition (1) does not match the '
        "UID in record (2). The object might have been deleted and then recreated",
        ABOUT | {"kind": "Deployment"},
    ),
    "an invalid field": (
        errors.invalid(DEPLOYMENTS, "web", [required_value("spec")]),
        422,
        "Invalid",
        'Deployment.apps "web" is invalid: spec: Required value',
        ABOUT | {"kind": "Deployment", "causes": [CAUSE]},
    ),
    "two invalid fields": (
        errors.invalid(DEPLOYMENTS, "web", [required_value("a"), required_value("b", "why")]),
        422,
        "Invalid",
        'Deployment.apps "web" is invalid: [a: Required value, b: Required value: why]',
        ABOUT
        | {
            "kind": "Deployment",
            "causes": [
                {**CAUSE, "field": "a"},
                {**CAUSE, "field": "b", "message": "Required value: why"},
            ],
        },
    ),
    "a rejected object": (
        errors.forbidden(DEPLOYMENTS, "web", "no"),
        403,
        "Forbidden",
        'deployments.apps "web" is forbidden: no',
        ABOUT,
    ),
    "an update without a version": (
        errors.version_required(DEPLOYMENTS, "web"),
        422,
        "Invalid",
        'deployments.apps "web" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an '
        "update",
        ABOUT | {"causes": [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")._asdict()]},
    ),
    "a version from the future": (
        errors.version_too_large(9, 5),
        504,
        "Timeout",
        "Too large resource version: 9, current: 5",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    ),
}


@pytest.mark.parametrize(("error", "code", "reason", "message", "details"), ERRORS.values(), ids=ERRORS)
def test_status_of_an_error(error: ApiError, code: int, reason: str, message: str, details: dict[str, Any]) -> None:
    assert errors.error_status(error) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def test_causes_are_limited() -> None:
    causes = [invalid_value("spec", "x" * 5000, "long")] * 300
    details = errors.error_status(errors.invalid(DEPLOYMENTS, "web", causes))["details"]
    assert len(details["causes"]) == errors.MAX_CAUSES
    assert len(details["causes"][0]["message"]) < 5000


def test_status_of_a_success() -> None:
    status = errors.success_status(DEPLOYMENTS, "web", "u1")
    assert (status["status"], status["details"]) == ("Success", ABOUT | {"uid": "u1"})
