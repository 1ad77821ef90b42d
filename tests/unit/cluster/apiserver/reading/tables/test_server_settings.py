"""Output of `kubectl get` for the kinds that configure an API server."""

from typing import Any

import pytest

from moorage.cluster.apiserver.reading.tables.printing import select_printer
from moorage.cluster.apiserver.reading.tables.server_settings import SERVER_SETTINGS
from moorage.kube.api.meta import parse_time

BORN = "2026-01-01T00:00:00Z"
META = {"name": "a", "creationTimestamp": BORN}

CELLS: list[tuple[str, dict[str, Any], list[Any]]] = [
    (
        "apiservices.apiregistration.k8s.io",
        {"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]}},
        ["a", "Local", "True", "7s"],
    ),
    (
        "apiservices.apiregistration.k8s.io",
        {
            "spec": {"service": {"namespace": "kube-system", "name": "metrics"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
        },
        ["a", "kube-system/metrics", "False (MissingEndpoints)", "7s"],
    ),
    (
        "flowschemas.flowcontrol.apiserver.k8s.io",
        {
            "spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1},
            "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
        },
        ["a", "exempt", 1, "<none>", "7s", "False"],
    ),
    (
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5}}},
        ["a", "Limited", 5, "<none>", "<none>", "<none>", "7s"],
    ),
    (
        "ipaddresses.networking.k8s.io",
        {"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"}}},
        ["a", "services/default/kubernetes", "7s"],
    ),
    ("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["10.96.0.0/16"]}}, ["a", "10.96.0.0/16", "7s"]),
    (
        "certificatesigningrequests.certificates.k8s.io",
        {
            "spec": {"signerName": "example.org/s", "username": "me", "expirationSeconds": 600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "YQ=="},
        },
        ["a", "7s", "example.org/s", "me", "10m", "Approved,Issued"],
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        {"webhooks": [{"name": "x"}, {"name": "y"}]},
        ["a", 2, "7s"],
    ),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        {"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]}},
        ["a", 1, "v1/ConfigMap", "7s"],
    ),
    (
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        {"spec": {"policyName": "p", "paramRef": {"namespace": "n", "name": "c"}}},
        ["a", "p", "n/c", "7s"],
    ),
]


@pytest.mark.parametrize(("storage", "data", "cells"), CELLS)
def test_cells(storage: str, data: dict[str, Any], cells: list[Any]) -> None:
    printer = select_printer(storage, lambda: 0.0)
    assert printer.cells({"metadata": META, **data}, parse_time(BORN) + 7) == cells


@pytest.mark.parametrize("storage", SERVER_SETTINGS)
@pytest.mark.parametrize("nonsense", [5, "x", True, [1], {"conditions": 5}, {"conditions": [1], "paramRef": 3}])
def test_malformed_objects_have_cells(storage: str, nonsense: Any) -> None:
    data = {"metadata": META, "spec": nonsense, "status": nonsense, "webhooks": nonsense}
    printer = select_printer(storage, lambda: 0.0)
    assert len(printer.cells(data, 0.0)) >= len(printer.columns)
