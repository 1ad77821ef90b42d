"""Values of /flagz, in upstream's notation."""

import json
from typing import Any

import pytest
from tests.support.page_visits import visit

from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.flags.table import FLAGS
from moorage.scheduler.daemon.serving.zpages import flagz_values

FLAGZ = {
    "a number": ("v", "3"),
    "a list of certificates": ("tls-sni-cert-key", "[a,b:c]"),
    "a switch": ("leader-elect", "false"),
    "a default": ("leader-elect-lease-duration", "15s"),
    "a list": ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
    "an empty list": ("emulated-version", "[]"),
    "an empty map": ("allow-metric-labels", "[]"),
    "gates, by component": ("feature-gates", ":A=true,:B=false,:C=true"),
    "levels of modules": ("vmodule", "a=3"),
}


@pytest.mark.parametrize(("name", "value"), FLAGZ.values(), ids=FLAGZ)
def test_flagz_has_every_value_as_upstream_prints_it(name: str, value: str) -> None:
    arguments = ["--v=3", "--tls-sni-cert-key=a,b:c", "--leader-elect=false", "--vmodule=a=3"]
    values = flagz_values(parse([*arguments, "--feature-gates=A=true,B=false", "--feature-gates=C=true"]))
    assert list(values) == sorted(FLAGS)
    assert values[name] == value


FORMS = {
    "text by default": ("", 200, "text/plain; charset=utf-8"),
    "text if anything will do": ("*/*, text/html", 200, "text/plain; charset=utf-8"),
    "a document": (
        "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
        200,
        "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
    ),
    "the same in YAML": (
        "application/yaml; as=Statusz; v=v1alpha1; g=config.k8s.io",
        200,
        "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz",
    ),
    "another kind of document": ("application/json;as=Flagz;v=v1beta1;g=config.k8s.io", 406, "application/json"),
    "a version that is not there": ("application/json;as=Statusz;v=v1;g=config.k8s.io", 406, "application/json"),
    "plain JSON": ("application/json", 406, "application/json"),
}


@pytest.mark.parametrize(("accept", "status", "content_type"), FORMS.values(), ids=FORMS)
def test_the_form_of_statusz(accept: str, status: int, content_type: str) -> None:
    reply = visit("/statusz", headers={"Accept": accept})  # type: ignore[arg-type]
    assert (reply.status, reply.headers["Content-Type"]) == (status, content_type)


def test_documents_of_status_and_flags() -> None:
    def document(kind: str) -> dict[str, Any]:
        accept = f"application/json;as={kind};v=v1beta1;g=config.k8s.io"
        read: dict[str, Any] = json.loads(visit(f"/{kind.lower()}", headers={"Accept": accept}).text)  # type: ignore[arg-type]
        return read

    head = {"apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "kube-scheduler"}}
    status, flags = document("Statusz"), document("Flagz")
    assert status | head | {"kind": "Statusz", "binaryVersion": "1.37.1", "emulationVersion": "1.37"} == status
    assert {"/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"} <= {*status["paths"]}
    assert flags | head == flags
    assert flags["flags"]["v"] == "2"
