"""The result of /healthz, check by check."""

import pytest

from moorage.scheduler.daemon.serving.health import HealthChecks, Report, ping


def sick() -> str | None:
    return "the lease is too old"


CHECKS = HealthChecks({"healthz": {"ping": ping}, "readyz": {"ping": ping, "leaderElection": sick}})

REPORTS = {
    "all is well": ("healthz", {}, Report(True, "ok")),
    "in detail": ("healthz", {"verbose": True}, Report(True, "[+]ping ok\nhealthz check passed\n")),
    "one check fails, and the reason is withheld": (
        "readyz",
        {},
        Report(False, "[+]ping ok\n[-]leaderElection failed: reason withheld\nreadyz check failed\n"),
    ),
    "the failing check is omitted": ("readyz", {"exclude": ["leaderElection"]}, Report(True, "ok")),
    "what is omitted is shown": (
        "readyz",
        {"exclude": ["leaderElection"], "verbose": True},
        Report(True, "[+]ping ok\n[+]leaderElection excluded: ok\nreadyz check passed\n"),
    ),
    "an unknown check cannot be omitted": (
        "healthz",
        {"exclude": ["pong"], "verbose": True},
        Report(
            True,
            '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "pong"\nhealthz check passed\n',
        ),
    ),
}


@pytest.mark.parametrize(("endpoint", "options", "want"), REPORTS.values(), ids=REPORTS)
def test_reports(endpoint: str, options: dict[str, object], want: Report) -> None:
    assert CHECKS.report(endpoint, **options) == want  # type: ignore[arg-type]


def test_single_checks() -> None:
    assert CHECKS.report_one("readyz", "ping") == Report(True, "ok")
    assert CHECKS.report_one("readyz", "leaderElection") == Report(
        False, "internal server error: the lease is too old\n"
    )
    assert CHECKS.report_one("readyz", "pong") is None


def test_checks_are_counted_for_slis() -> None:
    checks = HealthChecks({"readyz": {"ping": ping, "leaderElection": sick}})
    checks.report("readyz")
    checks.report("readyz")
    latest, total = checks.families()
    assert {(s.labels["name"], s.value) for s in latest.samples} == {("ping", 1.0), ("leaderElection", 0.0)}
    assert {(s.labels["name"], s.labels["status"], s.value) for s in total.samples} == {
        ("ping", "success", 2.0),
        ("leaderElection", "error", 2.0),
    }
