"""Validation of pods and of the templates of pods."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.kube.admission.checks.names import (
    NOT_NEGATIVE,
    POSITIVE,
    dns_label,
    labels,
    port_name,
    port_number,
    qualified_name,
    subdomain,
)
from moorage.kube.admission.checks.placement import label_selector, placement
from moorage.kube.api.quantity import NANO, nano_value
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
ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
STANDARD: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
PULLS: Final = ("Always", "IfNotPresent", "Never")
MESSAGES: Final = ("FallbackToLogsOnError", "File")
HOOKS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
"""Fields of containers that keep running."""
HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
HUGE: Final = "hugepages-"


def pod_spec(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the spec of a pod."""
    yield from _volumes(spec.get("volumes") or [], f"{path}.volumes")
    yield from _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from _containers(spec, path)
    for name, supported in (("restartPolicy", RESTARTS), ("dnsPolicy", DNS)):
        if spec.get(name) not in supported:
            yield unsupported_value(f"{path}.{name}", spec.get(name, ""), supported)
    yield from _host_access(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        reason = "must be between 1 and 2147483647, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, reason)
    yield from labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from placement(spec, path)
    for name, amount in (spec.get("overhead") or {}).items():
        yield from _amount(name, amount, f"{path}.overhead.limits[{name}]")
    yield from _gates(spec, path)
    if (group := spec.get("schedulingGroup")) is not None:
        field_path, name = f"{path}.schedulingGroup.podGroupName", group.get("podGroupName")
        unnamed = [invalid_value(field_path, None, "must specify one of: `podGroupName`")]
        yield from unnamed if name is None else invalid_values(field_path, name, subdomain(name))


def _host_access(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the DNS of the pod, its user namespace, and its seccomp profile."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None" and config is None:
        yield required_value(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    elif spec.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        reason = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required_value(f"{path}.dnsConfig.nameservers", reason)
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name) and spec.get("hostUsers") is False:
            yield forbidden_field(f"{path}.{name}", "when `hostUsers` is false")
    yield from _seccomp(spec, path)


def _seccomp(item: Data, path: str) -> Iterator[FieldError]:
    profile = (item.get("securityContext") or {}).get("seccompProfile") or {}
    if profile.get("type") == "Localhost" and not profile.get("localhostProfile"):
        field_path = f"{path}.securityContext.seccompProfile.localhostProfile"
        yield required_value(field_path, "must be set when seccomp type is Localhost")


def _containers(spec: Data, path: str) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield required_value(f"{path}.containers")
    names: set[str] = set()
    claims = {claim.get("name", "") for claim in spec.get("resourceClaims") or ()}
    volume_names = {volume.get("name", "") for volume in spec.get("volumes") or ()}
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            location = f"{path}.{kind}[{number}]"
            yield from _check_name(container, names, location)
            if not container.get("image"):
                yield required_value(f"{location}.image")
            for name, supported in (("imagePullPolicy", PULLS), ("terminationMessagePolicy", MESSAGES)):
                if container.get(name) not in supported:
                    yield unsupported_value(f"{location}.{name}", container.get(name, ""), supported)
            for name in ("livenessProbe", "readinessProbe", "startupProbe"):
                probe = container.get(name)
                if probe is not None and not any(handler in probe for handler in HANDLERS):
                    yield required_value(f"{location}.{name}", "must specify a handler type")
            for name in HOOKS if kind == "initContainers" and container.get("restartPolicy") != "Always" else ():
                if container.get(name):
                    reason = "may not be set for init containers without restartPolicy=Always"
                    yield forbidden_field(f"{location}.{name}", reason)
            yield from _seccomp(container, location)
            context = container.get("securityContext") or {}
            if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
                reason = "`hostUsers` must be false to use `Unmasked`"
                yield invalid_value(f"{location}.securityContext.procMount", "Unmasked", reason)
            yield from _mounts(container, volume_names, location)
            yield from _resources(container.get("resources") or {}, claims, f"{location}.resources")
    yield from _ports(spec, path)


def _mounts(container: Data, volume_names: set[str], path: str) -> Iterator[FieldError]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        mount_path, name = f"{path}.volumeMounts[{index}]", mount.get("name", "")
        if not name:
            yield required_value(f"{mount_path}.name")
        elif name not in volume_names:
            yield value_not_found(f"{mount_path}.name", name)
        if not mount.get("mountPath"):
            yield required_value(f"{mount_path}.mountPath")
        for field in ("subPath", "subPathExpr"):
            part = mount.get(field) or ""
            if part.startswith("/"):
                yield invalid_value(f"{path}.volumeMounts.{field}", part, "must be a relative path")
            elif ".." in part.split("/"):
                yield invalid_value(f"{path}.volumeMounts.{field}", part, "must not contain '..'")
    for index, device in enumerate(container.get("volumeDevices") or ()):
        if device.get("name", "") not in volume_names:
            yield value_not_found(f"{path}.volumeDevices[{index}].name", device.get("name", ""))


def _check_name(item: Data, names: set[str], path: str) -> Iterator[FieldError]:
    """Check the name of a container or volume. ``names`` are those of the items before it."""
    name = item.get("name", "")
    if not name:
        yield required_value(f"{path}.name")
    elif name in names:
        yield duplicate_value(f"{path}.name", name)
    else:
        yield from invalid_values(f"{path}.name", name, dns_label(name))
    names.add(name)


def _resources(requirements: Data, claim_names: set[str], path: str) -> Iterator[FieldError]:
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{path}.requests[{name}]")
        is_shared = name in STANDARD
        if name not in limits:
            if not is_shared and ("/" in name or name.startswith(HUGE)):
                yield required_value(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif not is_shared and nano_value(amount) != nano_value(limits[name]):
            reason = f"must be equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", str(amount), reason)
        elif is_shared and nano_value(amount) > nano_value(limits[name]):
            reason = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", str(amount), reason)
    names = {*limits, *requests}
    if any(name.startswith(HUGE) for name in names) and names.isdisjoint(("cpu", "memory")):
        yield forbidden_field(path, "HugePages require cpu or memory")
    for number, claim in enumerate(requirements.get("claims") or ()):
        if claim.get("name") not in claim_names:
            reason = "must be one of the names in pod.spec.resourceClaims" + ("" if claim_names else " which is empty")
            yield value_not_found(f"{path}.claims[{number}]", claim.get("name", ""), reason)


def _amount(name: str, amount: Any, path: str) -> Iterator[FieldError]:
    is_standard = name in STANDARD or name.startswith(HUGE)
    yield from invalid_values(path, name, qualified_name(name))
    if "/" not in name and not is_standard:
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for containers")
    yield from amount_not_negative(amount, path)
    if not is_standard and nano_value(amount) % NANO:
        yield invalid_value(path, str(amount), "must be an integer")


def amount_not_negative(amount: Any, path: str) -> Iterator[FieldError]:
    """Check that an amount is not negative."""
    if nano_value(amount) < 0:
        yield invalid_value(path, str(amount), NOT_NEGATIVE)


def _ports(spec: Data, path: str) -> Iterator[FieldError]:
    shared_ports: set[str] = set()
    located = [(kind, *item) for kind in ("containers", "initContainers") for item in enumerate(spec.get(kind) or ())]
    for kind, number, container in located:
        names: set[str] = set()
        host_ports = shared_ports if kind == "containers" else set[str]()
        for index, port in enumerate(container.get("ports") or ()):
            location = f"{path}.{kind}[{number}].ports[{index}]"
            if name := port.get("name"):
                yield from invalid_values(f"{location}.name", name, port_name(name))
                if name in names:
                    yield duplicate_value(f"{location}.name", name)
                names.add(name)
            inside, outside = port.get("containerPort", 0), port.get("hostPort", 0)
            if not inside:
                yield required_value(f"{location}.containerPort")
            else:
                yield from port_number(inside, f"{location}.containerPort")
            if outside:
                yield from port_number(outside, f"{location}.hostPort")
                if spec.get("hostNetwork") and outside != inside:
                    reason = "must match `containerPort` when `hostNetwork` is true"
                    yield invalid_value(f"{location}.hostPort", outside, reason)
            if port.get("protocol", "TCP") not in PROTOCOLS:
                yield unsupported_value(f"{location}.protocol", port["protocol"], PROTOCOLS)
            if outside:
                port_key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{outside}"
                if port_key in host_ports:
                    yield duplicate_value(f"{location}.hostPort", port_key)
                host_ports.add(port_key)


def _resource_claims(items: list[Data], path: str) -> Iterator[FieldError]:
    for number, claim in enumerate(items):
        names = {name: claim.get(name) for name in ("resourceClaimName", "resourceClaimTemplateName")}
        go_value = {"Name": claim.get("name", "")} | {f"R{name[1:]}": value for name, value in names.items()}
        is_set = [value is not None for value in names.values()]
        choice = "`resourceClaimName`, `resourceClaimTemplateName`"
        if all(is_set):
            yield invalid_value(f"{path}[{number}]", go_value, f"at most one of {choice} may be specified")
        elif not any(is_set):
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


def claim_spec(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the spec of a volume claim."""
    if not spec.get("accessModes"):
        yield required_value(f"{path}.accessModes", "at least 1 access mode is required")
    yield from access_modes(spec, path)
    yield from label_selector(spec.get("selector") or {}, f"{path}.selector")
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        yield required_value(f"{path}.resources[storage]")
    elif nano_value(amount) <= 0:
        yield invalid_value(f"{path}.resources[storage]", str(amount), POSITIVE)


def access_modes(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the access modes of a volume or claim."""
    for mode in spec.get("accessModes") or ():
        if mode not in ACCESS_MODES:
            yield unsupported_value(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in (modes := spec.get("accessModes") or ()) and len(modes) > 1:
        yield forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")


def pod_template(template: Data, path: str) -> Iterator[FieldError]:
    """Check a pod template."""
    yield from labels((template.get("metadata") or {}).get("labels") or {}, f"{path}.labels")
    yield from pod_spec(template.get("spec") or {}, f"{path}.spec")
    if (template.get("spec") or {}).get("ephemeralContainers"):
        yield forbidden_field(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


_NAMES: Final = {"persistentVolumeClaim": "claimName", "configMap": "name", "hostPath": "path", "csi": "driver"}
"""The field that each sort of volume cannot do without."""


def _volumes(items: list[Data], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for number, volume in enumerate(items):
        location = f"{path}[{number}]"
        yield from _check_name(volume, names, location)
        sorts = [sort for sort in volume if sort != "name"]
        for sort in sorts[1:]:
            yield forbidden_field(f"{location}.{sort}", "may not specify more than 1 volume type")
        for sort in sorts[:1]:
            if sort in _NAMES and not volume[sort].get(_NAMES[sort]):
                yield required_value(f"{location}.{sort}.{_NAMES[sort]}")
