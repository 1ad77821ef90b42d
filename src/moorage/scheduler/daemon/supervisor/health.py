"""Whether this replica is alive, well and ready: kube-scheduler's checks under its names, and the watchdog's."""

from collections.abc import Callable, Mapping

from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.daemon.serving.health import HealthChecks, ping
from moorage.scheduler.daemon.supervisor.process import IS_STOPPING, IS_SYNCED, SharedState
from moorage.scheduler.daemon.supervisor.watchdog import METRIC, Watchdog


def health_checks(
    page: SharedState,
    watchdog: Watchdog,
    is_overdue: Callable[[], bool],
    is_known: Callable[[], bool] = lambda: True,
) -> HealthChecks:
    """Make the checks; none of them waits for the scheduler."""

    def leader_election() -> str | None:
        return "failed election to renew leadership on lease" if is_overdue() else None

    def stuck() -> str | None:
        return "the scheduler is stuck" if watchdog.is_stuck else None

    def informers_synced() -> str | None:
        return None if page[IS_SYNCED] else "handlers are not fully synchronized"

    def candidate() -> str | None:
        return None if is_known() else "lease candidate is not synchronized"

    def shutdown() -> str | None:
        return "process is shutting down" if page[IS_STOPPING] else None

    return HealthChecks(
        {
            "healthz": {"ping": ping, "leaderElection": leader_election, "watchdog": stuck},
            "livez": {"ping": ping, "watchdog": stuck},
            "readyz": {
                "ping": ping,
                "leaderElection": leader_election,
                "shutdown": shutdown,
                "sched-handler-sync": informers_synced,
                "lease-candidate-sync": candidate,
            },
        }
    )


def own_metrics(counts: Mapping[str, int]) -> str:
    """Write the one metric that matters while the scheduler cannot write its own."""
    spec = METRICS[METRIC]
    lines = [f'{METRIC}{{plugin="{plugin}"}} {float(number)}' for plugin, number in sorted(counts.items())]
    return "\n".join([f"# HELP {METRIC} [{spec.stability}] {spec.help}", f"# TYPE {METRIC} counter", *lines, ""])
