"""Kinds that set up an API server as tables: admission, aggregation, flow control, certificates, addresses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import Cells, Column, columns, created, duration, format_cell, plain
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find

ADMISSION: Final = "admissionregistration.k8s.io"


def _items(data: Data, path: str) -> list[Data]:
    """Return the mappings in a list; these kinds are stored without validation, so it may contain anything."""
    items = find(data, path, [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _counted(path: str) -> Cells:
    return lambda data, now: [data["metadata"]["name"], len(_items(data, path)), created(data, now)]


def _policy(path: str) -> Cells:
    def cells(data: Data, now: float) -> list[Any]:
        version, kind = find(data, "spec.paramKind.apiVersion", ""), find(data, "spec.paramKind.kind", "")
        param = f"{version}/{kind}" if kind else "<unset>"
        return [data["metadata"]["name"], len(_items(data, path)), param, created(data, now)]

    return cells


def _policy_binding(data: Data, now: float) -> list[Any]:
    namespace, name = find(data, "spec.paramRef.namespace", ""), find(data, "spec.paramRef.name", "")
    param = (f"{namespace}/{name}" if namespace else name) if find(data, "spec.paramRef", {}) else "<unset>"
    return [data["metadata"]["name"], format_cell(find(data, "spec.policyName")), param or "*", created(data, now)]


def _api_service(data: Data, now: float) -> list[Any]:
    namespace, name = find(data, "spec.service.namespace", ""), find(data, "spec.service.name", "")
    return [
        *(data["metadata"]["name"], f"{namespace}/{name}" if name else "Local"),
        *(_condition_status(data, "Available"), created(data, now)),
    ]


def _signing_request(data: Data, now: float) -> list[Any]:
    conditions = {condition.get("type") for condition in _items(data, "status.conditions")}
    state = "Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"
    state += ",Failed" if "Failed" in conditions else ""
    state += ",Issued" if find(data, "status.certificate", "") else ""
    seconds = find(data, "spec.expirationSeconds", None)
    return [
        *(data["metadata"]["name"], created(data, now), format_cell(find(data, "spec.signerName"))),
        *(format_cell(find(data, "spec.username")), duration(seconds) if isinstance(seconds, int) else "<none>", state),
    ]


def _flow_schema(data: Data, now: float) -> list[Any]:
    return [
        *(data["metadata"]["name"], format_cell(find(data, "spec.priorityLevelConfiguration.name"))),
        *(format_cell(find(data, "spec.matchingPrecedence")), format_cell(find(data, "spec.distinguisherMethod.type"))),
        *(created(data, now), _condition_status(data, "Dangling")),
    ]


def _condition_status(data: Data, kind: str) -> str:
    """Return the status of a condition, and why when it is not met."""
    for condition in _items(data, "status.conditions"):
        if condition.get("type") == kind:
            status, reason = str(condition.get("status", "")), condition.get("reason", "")
            return f"{status} ({reason})" if kind == "Available" and status != "True" and reason else status
    return "Unknown" if kind == "Available" else "?"


def _address(data: Data, now: float) -> list[Any]:
    parts = [find(data, f"spec.parentRef.{part}", "") for part in ("group", "resource", "namespace", "name")]
    return [data["metadata"]["name"], "/".join(str(part) for part in parts if part), created(data, now)]


SERVER_SETTINGS: Final[Mapping[str, tuple[tuple[Column, ...], Cells]]] = MappingProxyType(
    {
        **{
            f"{kind}webhookconfigurations.{ADMISSION}": (columns("Name", "Webhooks", "Age"), _counted("webhooks"))
            for kind in ("mutating", "validating")
        },
        **{
            f"{kind}admissionpolicies.{ADMISSION}": (
                columns("Name", field.title(), "ParamKind", "Age"),
                _policy(f"spec.{field}"),
            )
            for kind, field in (("mutating", "mutations"), ("validating", "validations"))
        },
        **{
            f"{kind}admissionpolicybindings.{ADMISSION}": (
                columns("Name", "PolicyName", "ParamRef", "Age"),
                _policy_binding,
            )
            for kind in ("mutating", "validating")
        },
        "apiservices.apiregistration.k8s.io": (columns("Name", "Service", "Available", "Age"), _api_service),
        "certificatesigningrequests.certificates.k8s.io": (
            columns("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"),
            _signing_request,
        ),
        "flowschemas.flowcontrol.apiserver.k8s.io": (
            columns("Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"),
            _flow_schema,
        ),
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
            columns("Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"),
            plain(
                *("metadata.name", "spec.type", "spec.limited.nominalConcurrencyShares"),
                *(f"spec.limited.limitResponse.queuing.{name}" for name in ("queues", "handSize", "queueLengthLimit")),
                "age",
            ),
        ),
        # A real server gives addresses a cell of age without a column for it.
        "ipaddresses.networking.k8s.io": (columns("Name", "ParentRef"), _address),
        "servicecidrs.networking.k8s.io": (
            columns("Name", "CIDRs", "Age"),
            plain("metadata.name", "spec.cidrs", "age"),
        ),
    }
)
