"""Limit ranges: minimum and maximum requests of containers, pods and claims in a namespace."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import gt, lt
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.api.quantity import NANO, Quantity, format_nanos, nano_value
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

LIMITS: Final = "limitranges"
Amounts = Mapping[str, Quantity]


def limit_ranges(store: Store, namespace: str) -> list[Data]:
    """Return the limits of a namespace."""
    ranges = (entry.data for entry in store.sorted(LIMITS, namespace))
    return [item for data in ranges for item in (data.get("spec") or {}).get("limits") or ()]


def check_pod(resource: ServedResource, data: Data, ranges: list[Data]) -> None:
    """Reject a pod that requests less or more than its namespace allows, in total or in one container."""
    spec = data["spec"]
    own, first = spec.get("containers") or (), spec.get("initContainers") or ()
    problems: list[str] = []
    for item in ranges:
        if item.get("type") == "Container":
            for container in (*own, *first):
                resources = container.get("resources") or {}
                problems += _problems(item, resources.get("requests") or {}, resources.get("limits") or {})
        elif item.get("type") == "Pod":
            problems += _problems(item, _total(spec, own, first, "requests"), _total(spec, own, first, "limits"))
    _refuse(resource, data, problems)


def check_claim(resource: ServedResource, data: Data, ranges: list[Data]) -> None:
    """Reject a claim for a volume that is smaller or larger than its namespace allows."""
    requests = find(data, "spec.resources.requests", {})
    problem_lists = (_problems(item, requests, {}) for item in ranges if item.get("type") == "PersistentVolumeClaim")
    _refuse(resource, data, [problem for problems in problem_lists for problem in problems])


def _refuse(resource: ServedResource, data: Data, problems: list[str]) -> None:
    if problems:
        metadata = data["metadata"]
        reason = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(resource, metadata.get("name") or metadata.get("generateName", ""), reason)


def _problems(item: Data, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    of_pods = kind != "PersistentVolumeClaim"
    for name, least in (item.get("min") or {}).items():
        rule = f"minimum {name} usage per {kind} is {least}"
        yield from _find_first(rule, name, {"request": requests, "limit": limits}, partial(gt, nano_value(least)))
    for name, most in (item.get("max") or {}).items():
        rule = f"maximum {name} usage per {kind} is {most}"
        # Claims have no limits. The maximum of a container applies to its limit first.
        checked = {"limit": limits, "request": requests} if of_pods else {"request": requests}
        yield from _find_first(rule, name, checked, partial(lt, nano_value(most)))
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        rule = f"{name} max limit to request ratio per {kind} is {ratio}"
        yield from _ratio(rule, requests.get(name, "0"), limits.get(name, "0"), ratio)


def _find_first(rule: str, name: str, checked: Mapping[str, Amounts], breaks: Callable[[int], bool]) -> Iterator[str]:
    """Yield the first violation of a rule. The first amount must be specified."""
    for number, (word, amounts) in enumerate(checked.items()):
        if name in amounts and breaks(nano_value(amounts[name])):
            yield f"{rule}, but {word} is {amounts[name]}"
            return
        if name not in amounts and not number:
            yield f"{rule}.  No {word} is specified"
            return


def _ratio(rule: str, request: Quantity, limit: Quantity, ratio: Quantity) -> Iterator[str]:
    requested, most = nano_value(request), nano_value(limit)
    for word, amount in (("request", requested), ("limit", most)):
        if not amount:
            yield f"{rule}, but no {word} is specified or {word} is 0"
            return
    if most * NANO > nano_value(ratio) * requested:
        yield f"{rule}, but provided ratio is {most / requested:f}"


def _total(spec: Data, own: Any, first: Any, field: str) -> dict[str, str]:
    """Add up the containers of a pod. Init containers run one at a time, so only the largest counts."""
    pod_level = find(spec, f"resources.{field}", {})
    total: dict[str, int] = {}
    for container in own:
        for name, amount in find(container, f"resources.{field}", {}).items():
            total[name] = total.get(name, 0) + nano_value(amount)
    for container in first:
        for name, amount in find(container, f"resources.{field}", {}).items():
            total[name] = max(total.get(name, 0), nano_value(amount))
    total_texts = {name: format_nanos(amount, is_binary=name != "cpu") for name, amount in total.items()}
    return {**total_texts, **pod_level}
