"""Kinds that set up an API server as tables: admission, aggregation, flow control, certificates, addresses."""

from collections.abc import Mapping
from typing import Final

from moorage.cluster.apiserver.reading.tables.cells import Column, columns, count, duration, list_items
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find

_ADMISSION: Final = "admissionregistration.k8s.io"


def _policy_parameters(data: Data, _: float) -> str:
    version, kind = find(data, "spec.paramKind.apiVersion"), find(data, "spec.paramKind.kind")
    return f"{version}/{kind}" if kind else "<unset>"


def _binding_parameters(data: Data, _: float) -> str:
    namespace, name = find(data, "spec.paramRef.namespace"), find(data, "spec.paramRef.name")
    if not find(data, "spec.paramRef"):
        return "<unset>"
    return (f"{namespace}/{name}" if namespace else str(name)) or "*"


def _service(data: Data, _: float) -> str:
    name = find(data, "spec.service.name")
    return f"{find(data, 'spec.service.namespace')}/{name}" if name else "Local"


def _availability(data: Data, _: float) -> str:
    """Return the status of the condition, and the reason when it is not met."""
    condition = next((item for item in list_items(data, "status.conditions") if item.get("type") == "Available"), None)
    if condition is None:
        return "Unknown"
    status, reason = str(condition.get("status", "")), condition.get("reason", "")
    return f"{status} ({reason})" if status != "True" and reason else status


def _missing_level(data: Data, _: float) -> str:
    conditions = list_items(data, "status.conditions")
    return next((str(item.get("status", "")) for item in conditions if item.get("type") == "Dangling"), "?")


def _requested_duration(data: Data, _: float) -> str:
    seconds = find(data, "spec.expirationSeconds", None)
    return duration(seconds) if isinstance(seconds, int) else "<none>"


def _signing_state(data: Data, _: float) -> str:
    conditions = {condition.get("type") for condition in list_items(data, "status.conditions")}
    state = "Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"
    state += ",Failed" if "Failed" in conditions else ""
    return state + (",Issued" if find(data, "status.certificate") else "")


def _parent(data: Data, _: float) -> str:
    parts = [find(data, f"spec.parentRef.{part}") for part in ("group", "resource", "namespace", "name")]
    return "/".join(str(part) for part in parts if part)


_WEBHOOKS: Final = columns("Name", ("Webhooks", count("webhooks")), "Age")
_BINDINGS: Final = columns("Name", "PolicyName: spec.policyName", ("ParamRef", _binding_parameters), "Age")
_LEVEL: Final = "spec.limited"
SERVER_SETTINGS: Final[Mapping[str, tuple[Column, ...]]] = {
    f"mutatingwebhookconfigurations.{_ADMISSION}": _WEBHOOKS,
    f"validatingwebhookconfigurations.{_ADMISSION}": _WEBHOOKS,
    f"mutatingadmissionpolicies.{_ADMISSION}": columns(
        "Name", ("Mutations", count("spec.mutations")), ("ParamKind", _policy_parameters), "Age"
    ),
    f"validatingadmissionpolicies.{_ADMISSION}": columns(
        "Name", ("Validations", count("spec.validations")), ("ParamKind", _policy_parameters), "Age"
    ),
    f"mutatingadmissionpolicybindings.{_ADMISSION}": _BINDINGS,
    f"validatingadmissionpolicybindings.{_ADMISSION}": _BINDINGS,
    "apiservices.apiregistration.k8s.io": columns("Name", ("Service", _service), ("Available", _availability), "Age"),
    "certificatesigningrequests.certificates.k8s.io": columns(
        *("Name", "Age", "SignerName: spec.signerName", "Requestor: spec.username"),
        *(("RequestedDuration", _requested_duration), ("Condition", _signing_state)),
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": columns(
        *("Name", "PriorityLevel: spec.priorityLevelConfiguration.name", "MatchingPrecedence: spec.matchingPrecedence"),
        *("DistinguisherMethod: spec.distinguisherMethod.type", "Age", ("MissingPL", _missing_level)),
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": columns(
        *("Name", "Type: spec.type", f"NominalConcurrencyShares: {_LEVEL}.nominalConcurrencyShares"),
        *(f"Queues: {_LEVEL}.limitResponse.queuing.queues", f"HandSize: {_LEVEL}.limitResponse.queuing.handSize"),
        *(f"QueueLengthLimit: {_LEVEL}.limitResponse.queuing.queueLengthLimit", "Age"),
    ),
    # A real server gives addresses a cell of age without a column for it.
    "ipaddresses.networking.k8s.io": columns("Name", ("ParentRef", _parent), ": @metadata.creationTimestamp"),
    "servicecidrs.networking.k8s.io": columns("Name", "CIDRs: spec.cidrs", "Age"),
}
