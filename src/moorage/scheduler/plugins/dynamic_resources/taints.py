"""Taints on devices: those a driver reports, those administrators add by rule, and who tolerates them."""

from collections.abc import Iterable, Sequence
from typing import Final

from moorage.kube.api.devices import Device, DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceSliceSpec

BLOCKING: Final = ("NoSchedule", "NoExecute")


def added_taints(rules: Iterable[DeviceTaintRule], spec: ResourceSliceSpec, device: Device) -> tuple[DeviceTaint, ...]:
    """Return what rules put on a device, in their order. A rule without a selector is about no device."""
    return tuple(rule.spec.taint for rule in rules if _is_about(rule, spec, device))


def _is_about(rule: DeviceTaintRule, spec: ResourceSliceSpec, device: Device) -> bool:
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, spec.driver)
        and selector.pool in (None, spec.pool.name)
        and selector.device in (None, device.name)
    )


def repels(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Return whether a taint keeps a request away; effects nobody knows keep nobody away."""
    return any(
        taint.effect in BLOCKING and not any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
