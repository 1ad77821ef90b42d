"""Whether this replica is alive, well and ready: the checks behind /healthz, /livez and /readyz."""

from asyncio import Event

from moorage.app.assembly import DaemonParts as Parts
from moorage.app.serving.health import HealthChecks, ping


def health_checks(parts: Parts, stopping: Event) -> HealthChecks:
    """Make the checks that kube-scheduler has, under its names."""

    def leader_election() -> str | None:
        elector = parts.elector
        is_overdue = elector is not None and elector.election.is_overdue()
        return "failed election to renew leadership on lease" if is_overdue else None

    def informers_synced() -> str | None:
        return None if parts.informers.are_synced else "handlers are not fully synchronized"

    def shutdown() -> str | None:
        return "process is shutting down" if stopping.is_set() else None

    return HealthChecks(
        {
            "healthz": {"ping": ping, "leaderElection": leader_election},
            "livez": {"ping": ping},
            "readyz": {
                "ping": ping,
                "leaderElection": leader_election,
                "shutdown": shutdown,
                "sched-handler-sync": informers_synced,
            },
        }
    )
