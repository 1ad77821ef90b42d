"""Cron jobs: their schedule, and the jobs they make."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.api.cron import parse, zone_of
from moorage.box.apiserver.checks.causes import invalid_value, not_supported, required
from moorage.box.apiserver.checks.names import not_negative
from moorage.box.apiserver.checks.workloads import job_spec
from moorage.box.apiserver.refusals import Cause
from moorage.errors import InputError

Data = dict[str, Any]
POLICIES: Final = ("Allow", "Forbid", "Replace")


def cron_job(data: Data) -> Iterator[Cause]:
    """Check a cron job."""
    spec = data.get("spec") or {}
    yield from _schedule(spec)
    limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from not_negative(spec, "spec", *limits)
    if spec.get("concurrencyPolicy", "Allow") not in POLICIES:
        yield not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], POLICIES)
    yield from job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


def _schedule(spec: Data) -> Iterator[Cause]:
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    fields = schedule.split()
    if not schedule:
        yield required("spec.schedule")
    elif "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid_value("spec.schedule", schedule, why)
    elif len(fields) != 5 and not schedule.startswith("@"):
        why = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        yield invalid_value("spec.schedule", schedule, why)
    else:
        try:
            parse(schedule)
        except InputError as error:
            yield invalid_value("spec.schedule", schedule, error.problem)
    if zone is not None:
        try:
            zone_of(zone)
        except InputError:
            yield invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")
