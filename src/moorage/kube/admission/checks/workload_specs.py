"""Deployments, replica sets, stateful and daemon sets, jobs, cron jobs, and the budgets that protect their pods."""

from collections.abc import Iterator
from typing import Final

import msgspec

from moorage.common.errors import InputError, SelectorError
from moorage.kube.admission.checks.names import at_most_all, labels, not_negative, number_or_percent, port_number
from moorage.kube.admission.checks.placement import label_selector
from moorage.kube.admission.checks.pod_specs import claim_spec, pod_template
from moorage.kube.admission.checks.scheduling_groups import job_scheduling
from moorage.kube.api.codec import convert
from moorage.kube.api.cron import find_zone, parse
from moorage.kube.api.selectors import LabelSelector, label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value, required_value, unsupported_value

_NUMBERS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


def workload(data: Data, kind: str = "deployment") -> Iterator[FieldError]:
    """Check workloads that keep pods running. ``kind`` is their name in upstream's messages."""
    spec = data.get("spec") or {}
    yield from not_negative(spec, "spec", *_NUMBERS)
    yield from pod_selector(spec, kind)
    yield from pod_template(spec.get("template") or {}, "spec.template")
    yield from _always_restarts(spec)


def deployment(data: Data) -> Iterator[FieldError]:
    """Check a deployment."""
    yield from workload(data)
    deadline = data["spec"].get("progressDeadlineSeconds")
    if deadline is not None and deadline <= data["spec"].get("minReadySeconds", 0):
        yield invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    strategy = data["spec"].get("strategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        go_value = {"Type": strategy.get("type", ""), "RollingUpdate": None}
        yield unsupported_value("spec.strategy", go_value, ("Recreate", "RollingUpdate"))
    elif strategy["type"] == "Recreate" and rolling is not None:
        reason = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden_field("spec.strategy.rollingUpdate", reason)
    elif rolling is not None:
        path = "spec.strategy.rollingUpdate"
        for name in ("maxUnavailable", "maxSurge"):
            yield from number_or_percent(rolling.get(name), f"{path}.{name}")
        most = rolling.get("maxUnavailable")
        yield from at_most_all(most, f"{path}.maxUnavailable")
        if most in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            yield invalid_value(f"{path}.maxUnavailable", most, "may not be 0 when `maxSurge` is 0")


def daemon_set(data: Data) -> Iterator[FieldError]:
    """Check a daemon set."""
    yield from workload(data, "daemonset")
    rolling = (data["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    for name in ("maxUnavailable", "maxSurge"):
        yield from number_or_percent(rolling.get(name), f"spec.updateStrategy.rollingUpdate.{name}")
        yield from at_most_all(rolling.get(name), f"spec.updateStrategy.rollingUpdate.{name}")
    if all(rolling.get(name) not in (None, 0, "0%") for name in ("maxUnavailable", "maxSurge")):
        path, reason = "spec.updateStrategy.rollingUpdate.maxSurge", "may not be set when maxUnavailable is non-zero"
        yield invalid_value(path, rolling["maxSurge"], reason)


def stateful_set(data: Data) -> Iterator[FieldError]:
    """Check a stateful set; in its pods, the volume of a claim template replaces a volume of that name."""
    for number, claim in enumerate((data.get("spec") or {}).get("volumeClaimTemplates") or ()):
        yield from claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{number}].spec")
    yield from workload({"spec": _with_claim_volumes(data.get("spec") or {})}, "statefulset")
    rolling = (data["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    path = "spec.updateStrategy.rollingUpdate"
    yield from not_negative(rolling, path, "partition")
    most = rolling.get("maxUnavailable")
    yield from number_or_percent(most, f"{path}.maxUnavailable")
    if most == 0 or (isinstance(most, str) and not most.strip("0%")):
        yield invalid_value(f"{path}.maxUnavailable", most, "cannot be 0")
    yield from at_most_all(most, f"{path}.maxUnavailable")


def _with_claim_volumes(spec: Data) -> Data:
    names = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if not names:
        return spec
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
    volumes += [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes}}}


def replication_controller(data: Data) -> Iterator[FieldError]:
    """Check a replication controller. Its selector is a map."""
    spec = data.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template") or {}
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    if not selector:
        yield required_value("spec.selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from pod_template(template, "spec.template")
    yield from _always_restarts(spec)


def pod_selector(spec: Data, kind: str) -> Iterator[FieldError]:
    """Check that a workload has a selector that matches its template."""
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    mismatch = invalid_value(
        "spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"
    )
    if selector is None:
        if kind != "daemonset":
            yield required_value("spec.selector")
        yield mismatch
        return
    yield from label_selector(selector, "spec.selector")
    if not selector:
        yield invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}")
        return
    try:
        if not label_matcher(convert(LabelSelector, selector)).matches(labels):
            yield mismatch
    except (SelectorError, msgspec.ValidationError):
        yield invalid_value("spec.selector", selector, "invalid label selector")


def _always_restarts(spec: Data) -> Iterator[FieldError]:
    pod = (spec.get("template") or {}).get("spec") or {}
    policy = pod.get("restartPolicy")
    if "activeDeadlineSeconds" in pod:
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds is not Supported")
    if policy in ("OnFailure", "Never"):
        yield unsupported_value("spec.template.spec.restartPolicy", policy, ("Always",))


def job_spec(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the spec of a job."""
    numbers = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    yield from not_negative(spec, path, *numbers)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield required_value(f"{path}.completions", "when completion mode is Indexed")
    if spec.get("completionMode", "NonIndexed") not in ("NonIndexed", "Indexed"):
        yield unsupported_value(f"{path}.completionMode", spec["completionMode"], ("NonIndexed", "Indexed"))
    if path == "spec" and spec.get("manualSelector") and not spec.get("selector"):
        yield required_value(f"{path}.selector")
    yield from job_scheduling(spec, f"{path}.scheduling")
    template = spec.get("template") or {}
    yield from pod_template(template, f"{path}.template")
    if (template.get("spec") or {}).get("restartPolicy") == "Always":
        yield required_value(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def budget(data: Data) -> Iterator[FieldError]:
    """Check a disruption budget."""
    spec = data.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        go_value = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield invalid_value("spec", go_value, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        yield from number_or_percent(spec.get(name), f"spec.{name}")
        yield from at_most_all(spec.get(name), f"spec.{name}")
    yield from label_selector(spec.get("selector") or {}, "spec.selector")


def service(data: Data) -> Iterator[FieldError]:
    """Check a service."""
    spec = data.get("spec") or {}
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield required_value("spec.ports")
    for number, port in enumerate(spec.get("ports") or ()):
        for name in ("port", "targetPort"):
            yield from port_number(port.get(name, 0), f"spec.ports[{number}].{name}")
    yield from labels(spec.get("selector") or {}, "spec.selector")


POLICIES: Final = ("Allow", "Forbid", "Replace")


def cron_job(data: Data) -> Iterator[FieldError]:
    """Check a cron job."""
    spec = data.get("spec") or {}
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    fields = schedule.split()
    if not schedule:
        yield required_value("spec.schedule")
    elif "TZ" in schedule:
        reason = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid_value("spec.schedule", schedule, reason)
    elif len(fields) != 5 and not schedule.startswith("@"):
        reason = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        yield invalid_value("spec.schedule", schedule, reason)
    else:
        try:
            parse(schedule)
        except InputError as error:
            yield invalid_value("spec.schedule", schedule, error.problem)
    try:
        find_zone(zone)
    except InputError:
        yield invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")
    limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    yield from not_negative(spec, "spec", *limits)
    if spec.get("concurrencyPolicy", "Allow") not in POLICIES:
        yield unsupported_value("spec.concurrencyPolicy", spec["concurrencyPolicy"], POLICIES)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    if job.get("manualSelector") is True:
        yield unsupported_value("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    if job.get("selector") is not None:
        reason = "`selector` will be auto-generated"
        yield invalid_value("spec.jobTemplate.spec.selector", job["selector"], reason)
    yield from job_spec(job, "spec.jobTemplate.spec")
