"""Health checks by name, and the texts of /healthz, /livez and /readyz, in the words of Kubernetes components."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

HealthCheck = Callable[[], str | None]
"""Checks the health of a component: ``None``, or a description of the problem."""


def ping() -> str | None:
    """Succeed always: a response proves that the server runs."""
    return None


class Report(NamedTuple):
    """The result of a health check."""

    is_healthy: bool
    text: str


class HealthChecks:
    """The checks of each endpoint, in order, and the counts of their results."""

    def __init__(self, endpoints: Mapping[str, Mapping[str, HealthCheck]]) -> None:
        self._endpoints = endpoints
        self._latest: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    @property
    def endpoints(self) -> Collection[str]:
        """The names of the endpoints, without a slash."""
        return self._endpoints.keys()

    def report(self, endpoint: str, *, verbose: bool = False, exclude: Collection[str] = ()) -> Report:
        """Run all checks of an endpoint but those excluded."""
        lines: list[str] = []
        has_failed = False
        for name, check in self._endpoints[endpoint].items():
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
            elif self._run(endpoint, name, check) is None:
                lines.append(f"[+]{name} ok")
            else:
                has_failed = True
                # Health pages are public, so the reasons of failures are in the logs only.
                lines.append(f"[-]{name} failed: reason withheld")
        if unknown := sorted({*exclude} - self._endpoints[endpoint].keys()):
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if has_failed:
            return Report(False, "\n".join([*lines, f"{endpoint} check failed", ""]))
        return Report(True, "\n".join([*lines, f"{endpoint} check passed", ""]) if verbose else "ok")

    def report_one(self, endpoint: str, name: str) -> Report | None:
        """Run a single check. Return ``None`` if no check has that name."""
        check = self._endpoints[endpoint].get(name)
        if check is None:
            return None
        problem = self._run(endpoint, name, check)
        return Report(True, "ok") if problem is None else Report(False, f"internal server error: {problem}\n")

    def _run(self, endpoint: str, name: str, check: HealthCheck) -> str | None:
        problem = check()
        self._latest[name, endpoint] = problem is None
        self._counts[name, "success" if problem is None else "error", endpoint] += 1
        return problem

    def families(self) -> "list[Metric]":
        """Return the metrics of /metrics/slis."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        gauge = GaugeMetricFamily(
            "kubernetes_healthcheck", "[STABLE] Whether the last health check succeeded.", labels=("name", "type")
        )
        for labels, is_well in self._latest.items():
            gauge.add_metric(labels, float(is_well))
        total = CounterMetricFamily(
            "kubernetes_healthchecks_total", "[STABLE] Health checks, by result.", labels=("name", "status", "type")
        )
        for key, count in self._counts.items():
            total.add_metric(key, float(count))
        return [gauge, total]
