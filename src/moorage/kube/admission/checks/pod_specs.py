"""Pods, and the templates of pods."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.admission.checks.amounts import claims_used, resources
from moorage.kube.admission.checks.names import dns_label, labels, port_number, qualified_name, subdomain
from moorage.kube.admission.checks.placement import placement
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    invalid_values,
    required_value,
    unsupported_value,
    value_not_found,
)

RESTARTS: Final = ("Always", "OnFailure", "Never")
DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


def pod_spec(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the spec of a pod."""
    yield from volumes(spec.get("volumes") or [], f"{path}.volumes")
    yield from _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from _containers(spec, path)
    for name, supported in (("restartPolicy", RESTARTS), ("dnsPolicy", DNS)):
        if spec.get(name) not in supported:
            yield unsupported_value(f"{path}.{name}", spec.get(name, ""), supported)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        why = "must be between 1 and 2147483647, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, why)
    yield from labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from placement(spec, path)
    yield from _gates(spec, path)
    if (group := spec.get("schedulingGroup")) is not None:
        here, name = f"{path}.schedulingGroup.podGroupName", group.get("podGroupName")
        unnamed = [invalid_value(here, None, "must specify one of: `podGroupName`")]
        yield from unnamed if name is None else invalid_values(here, name, subdomain(name))


def _containers(spec: Data, path: str) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield required_value(f"{path}.containers")
    names: set[str] = set()
    claims = {claim.get("name", "") for claim in spec.get("resourceClaims") or ()}
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{number}]"
            yield from _named(container, names, where)
            if not container.get("image"):
                yield required_value(f"{where}.image")
            yield from _mounts(container, spec, where)
            yield from resources(container.get("resources") or {}, f"{where}.resources")
            yield from claims_used(container.get("resources") or {}, claims, f"{where}.resources")
    yield from _ports(spec, path)


def _named(container: Data, names: set[str], path: str) -> Iterator[FieldError]:
    name = container.get("name", "")
    if not name:
        yield required_value(f"{path}.name")
    elif name in names:
        yield duplicate_value(f"{path}.name", name)
    else:
        yield from invalid_values(f"{path}.name", name, dns_label(name))
    names.add(name)


def _mounts(container: Data, spec: Data, path: str) -> Iterator[FieldError]:
    volume_names = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        where, name = f"{path}.volumeMounts[{number}]", mount.get("name", "")
        if not name:
            yield required_value(f"{where}.name")
        elif name not in volume_names:
            yield value_not_found(f"{where}.name", name)
        if not mount.get("mountPath"):
            yield required_value(f"{where}.mountPath")


def _ports(spec: Data, path: str) -> Iterator[FieldError]:
    host_ports: set[str] = set()
    for number, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{path}.containers[{number}].ports[{index}]"
            yield from _port(port, where, on_host=bool(spec.get("hostNetwork")))
            if port.get("hostPort"):
                port_key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if port_key in host_ports:
                    yield duplicate_value(f"{where}.hostPort", port_key)
                host_ports.add(port_key)


def _port(port: Data, path: str, *, on_host: bool) -> Iterator[FieldError]:
    inside, outside = port.get("containerPort", 0), port.get("hostPort", 0)
    if not inside:
        yield required_value(f"{path}.containerPort")
    else:
        yield from port_number(inside, f"{path}.containerPort")
    if outside:
        yield from port_number(outside, f"{path}.hostPort")
        if on_host and outside != inside:
            yield invalid_value(f"{path}.hostPort", outside, "must match `containerPort` when `hostNetwork` is true")
    if port.get("protocol", "TCP") not in PROTOCOLS:
        yield unsupported_value(f"{path}.protocol", port["protocol"], PROTOCOLS)


def _resource_claims(items: list[Data], path: str) -> Iterator[FieldError]:
    for number, claim in enumerate(items):
        claim_name, template_name = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        go_value = {
            "Name": claim.get("name", ""),
            "ResourceClaimName": claim_name,
            "ResourceClaimTemplateName": template_name,
        }
        choice = "`resourceClaimName`, `resourceClaimTemplateName`"
        if claim_name is not None and template_name is not None:
            yield invalid_value(f"{path}[{number}]", go_value, f"at most one of {choice} may be specified")
        elif claim_name is None and template_name is None:
            yield invalid_value(f"{path}[{number}]", go_value, f"must specify one of: {choice}")


def _gates(spec: Data, path: str) -> Iterator[FieldError]:
    names_so_far: set[str] = set()
    for number, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        yield from invalid_values(f"{path}.schedulingGates[{number}]", name, qualified_name(name))
        if name in names_so_far:
            yield duplicate_value(f"{path}.schedulingGates[{number}]", name)
        names_so_far.add(name)
    if names_so_far and spec.get("nodeName"):
        yield forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


def pod_template(template: Data, path: str) -> Iterator[FieldError]:
    """Check a pod template."""
    yield from labels((template.get("metadata") or {}).get("labels") or {}, f"{path}.labels")
    yield from pod_spec(template.get("spec") or {}, f"{path}.spec")


_NAMES: Final = {"persistentVolumeClaim": "claimName", "configMap": "name", "hostPath": "path", "csi": "driver"}
"""The field that each sort of volume cannot do without."""


def volumes(items: list[Data], path: str) -> Iterator[FieldError]:
    """Check the volumes of a pod."""
    names_so_far: set[str] = set()
    for number, volume in enumerate(items):
        where, name = f"{path}[{number}]", volume.get("name", "")
        if not name:
            yield required_value(f"{where}.name")
        elif name in names_so_far:
            yield duplicate_value(f"{where}.name", name)
        else:
            yield from invalid_values(f"{where}.name", name, dns_label(name))
        names_so_far.add(name)
        yield from _source(volume, where)


def _source(volume: Data, path: str) -> Iterator[FieldError]:
    sorts = [sort for sort in volume if sort != "name"]
    for sort in sorts[1:]:
        yield forbidden_field(f"{path}.{sort}", "may not specify more than 1 volume type")
    for sort in sorts[:1]:
        if sort in _NAMES and not volume[sort].get(_NAMES[sort]):
            yield required_value(f"{path}.{sort}.{_NAMES[sort]}")
