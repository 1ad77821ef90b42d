"""Output of `kubectl get` for the objects of a cluster."""

from typing import Any

import pytest

from moorage.cluster.apiserver.reading.tables.printing import select_printer
from moorage.kube.api.meta import parse_time

BORN = "2026-01-01T00:00:00Z"
IPS = [{"ip": f"10.0.0.{number}"} for number in range(1, 5)]
PORTS = [{"port": 80}]
SLICE = "endpointslices.discovery.k8s.io"
CELLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no addresses": ("endpoints", {}, "<none>"),
    "unready addresses": ("endpoints", {"subsets": [{"notReadyAddresses": IPS, "ports": PORTS}]}, "<none>"),
    "an address without ports": ("endpoints", {"subsets": [{"addresses": IPS[:1]}]}, "10.0.0.1"),
    "two ports": (
        "endpoints",
        {"subsets": [{"addresses": IPS[:1], "ports": [*PORTS, {"port": 81}]}]},
        "10.0.0.1:80,10.0.0.1:81",
    ),
    "many addresses": (
        "endpoints",
        {"subsets": [{"addresses": IPS, "ports": PORTS}]},
        "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more...",
    ),
    "an empty slice": (SLICE, {"endpoints": None}, "<unset>"),
    "a slice": (
        SLICE,
        {"endpoints": [{"addresses": [item["ip"]]} for item in IPS]},
        "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...",
    ),
}


@pytest.mark.parametrize(("resource", "data", "cell"), CELLS.values(), ids=CELLS)
def test_addresses_in_a_cell(resource: str, data: dict[str, Any], cell: str) -> None:
    obj = {"metadata": {"name": "a", "creationTimestamp": BORN}, **data}
    assert cell in select_printer(resource, lambda: 0.0).cells(obj, parse_time(BORN))
