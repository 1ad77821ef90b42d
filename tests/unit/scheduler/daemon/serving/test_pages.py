"""Pages over a real TLS socket on this machine."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.page_visits import visit
from tests.support.serving import Reply, page_sources, served

from moorage.kube.features import FeatureGates
from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.flags.table import FLAGS
from moorage.scheduler.daemon.serving.health import HealthCheck
from moorage.scheduler.daemon.serving.pages import flagz_values
from moorage.scheduler.framework.logs import VERBOSITY


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
def test_health(endpoint: str) -> None:
    reply = visit(f"/{endpoint}")
    assert (reply.status, reply.text) == (200, "ok")


def test_health_that_fails() -> None:
    sick: dict[str, HealthCheck] = {"ping": lambda: "no"}
    assert visit("/readyz", checks=sick).status == 500
    assert visit("/readyz/ping", checks=sick).text == "internal server error: no\n"
    assert visit("/readyz?exclude=ping&verbose", checks=sick).text == "[+]ping excluded: ok\nreadyz check passed\n"
    assert visit("/readyz/pong", checks=sick).status == 404


def test_metrics_and_their_reset() -> None:
    sources = page_sources()
    sources.metrics["scheduler_preemption_attempts_total"].number().inc(3)

    async def work() -> tuple[Reply, Reply, Reply]:
        async with served(sources) as visitor:
            first = await visitor.ask("/metrics")
            deleted = await visitor.ask("/metrics", method="DELETE")
            return first, deleted, await visitor.ask("/metrics")

    before, deleted, after = asyncio.run(work())
    assert before.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "scheduler_preemption_attempts_total 3.0" in before.text
    assert "process_cpu_seconds_total" in before.text
    assert deleted.text == "metrics reset\n"
    assert "scheduler_preemption_attempts_total 0.0" in after.text


def test_metrics_in_the_newer_format() -> None:
    reply = visit("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})  # type: ignore[arg-type]
    assert reply.text.endswith("# EOF\n")


def test_slis_follow_the_health_checks() -> None:
    async def work() -> str:
        async with served() as visitor:
            await visitor.ask("/healthz")
            return (await visitor.ask("/metrics/slis")).text

    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1.0' in asyncio.run(work())


def test_configuration_version_flags_and_status() -> None:
    assert json.loads(visit("/configz").text) == {"componentconfig": {"kind": "KubeSchedulerConfiguration"}}
    assert json.loads(visit("/version").text)["major"] == "1"
    assert "\nv=2\n" in visit("/flagz").text
    status = visit("/statusz").text
    assert "Binary version: 1.37.1" in status
    assert "/metrics" in status


def test_gates_take_pages_away() -> None:
    sources = page_sources(features=FeatureGates({"ComponentFlagz": False, "ComponentStatusz": False}))
    assert visit("/flagz", sources).status == visit("/statusz", sources).status == 404


def test_verbosity_is_set() -> None:
    reply = visit("/debug/flags/v", method="PUT", body="7")
    assert reply.text == "successfully set klog.logging.verbosity to 7\n"
    assert VERBOSITY.level == 7
    assert visit("/debug/flags/v", method="PUT", body="loud").status == 400


@pytest.mark.parametrize("level", ["", "-1", "1.5", "²", "٤", "nan", "2147483648", "9" * 4000, "1 2", "\x00"])
def test_invalid_log_level_is_rejected(level: str) -> None:
    reply = visit("/debug/flags/v", method="PUT", body=level)
    assert (reply.status, VERBOSITY.level) == (400, 0)
    assert len(reply.text) < 300


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


@pytest.mark.release("1.37")
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
