"""A forecast as data: when a pod or a workload starts, and on what that depends; camelCase on the wire."""

from typing import Any

from msgspec import Struct, to_builtins

from moorage.kube.api.meta import format_time


class StartInterval(Struct, frozen=True):
    """The 80% interval of the start (p10 to p90) and its median, in seconds from now.

    A quantile beyond the horizon equals the horizon.
    """

    p10: float
    p50: float
    p90: float


class Dependency(Struct, frozen=True):
    """An event before the start: the share of futures with it, and its median time."""

    share: float
    at: float
    text: str
    pod: str = ""
    event: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        subject = {"pod": self.pod} if self.pod else {"event": self.event}
        return {**subject, "share": self.share, "at": {"p50": self.at}, "text": self.text}


class SoonerChange(Struct, frozen=True):
    """A change that makes the start earlier, and the median start with it."""

    text: str
    edits: list[dict[str, Any]]
    p50: float


class Forecast(Struct, frozen=True, kw_only=True):
    """When a subject starts."""

    subject: str
    now: float
    """Seconds since 1970."""
    state: str
    """``running``, ``pending``, ``gated`` or ``never``."""
    started_at: str = ""
    reason: str = ""
    start: StartInterval | None = None
    horizon: float = 0.0
    censored: float = 0.0
    draws: int = 0
    assumptions: tuple[str, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    sooner: tuple[SoonerChange, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        data: dict[str, Any] = {"subject": self.subject, "now": format_time(self.now), "state": self.state}
        if self.started_at:
            data["startedAt"] = self.started_at
        if self.reason:
            data["reason"] = self.reason
        if self.start is not None:
            data |= {"start": to_builtins(self.start), "censored": self.censored}
        return data | {
            "horizon": self.horizon,
            "draws": self.draws,
            "assumptions": list(self.assumptions),
            "dependsOn": [item.as_data() for item in self.depends_on],
            "sooner": to_builtins(self.sooner),
        }


class QueuedStart(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a pending pod starts."""

    pod: str
    state: str
    """``pending``, ``gated`` or ``never``."""
    start: StartInterval | None = None
    """Absent if the pod never starts, or is gated."""
    censored: float = 0.0
    priority: int = 0
    group: str = ""
    """The class of the pod: its namespace, or the value of a label."""


class QueueForecast(Struct, frozen=True, kw_only=True):
    """When the pending pods start, in the order of their median starts."""

    now: float
    horizon: float
    draws: int
    pods: tuple[QueuedStart, ...]
    assumptions: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        return {**to_builtins(self), "now": format_time(self.now)}
