"""Validation of kinds that other programs act on: RBAC, Ingresses, API services and network policies."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

import msgspec

from moorage.kube.admission.checks.names import data_key, is_ip_address, subdomain
from moorage.kube.admission.checks.placement import label_selector
from moorage.kube.admission.checks.pod_specs import PROTOCOLS
from moorage.kube.api.kinds import RBAC
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, invalid_values, required_value, unsupported_value

SUBJECTS: Final = ("ServiceAccount", "User", "Group")
PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
TLS_KEYS: Final = ("tls.crt", "tls.key")
JSON_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
"""The keys of secrets with a JSON object as value, by type."""
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
POLICY_TYPES: Final = ("Ingress", "Egress")


def role(data: Data) -> Iterator[FieldError]:
    """Check the rules of a role."""
    for number, rule in enumerate(data.get("rules") or ()):
        path = f"rules[{number}]"
        if urls := rule.get("nonResourceURLs"):
            yield invalid_value(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        yield from _rule(rule, path)


def cluster_role(data: Data) -> Iterator[FieldError]:
    """Check the rules of a cluster role, and its aggregation."""
    for number, rule in enumerate(data.get("rules") or ()):
        yield from _rule(rule, f"rules[{number}]")
    aggregation = data.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        reason = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required_value("aggregationRule.clusterRoleSelectors", reason)


def _rule(rule: Data, path: str) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required_value(f"{path}.verbs")
    if urls := rule.get("nonResourceURLs"):
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            reason = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", urls, reason)
        return
    if not rule.get("apiGroups"):
        yield required_value(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required_value(f"{path}.resources", "resource rules must supply at least one resource")


def role_binding(data: Data, *kinds: str) -> Iterator[FieldError]:
    """Check a binding to a role of some kinds. One that can be to a Role has a namespace, the default of accounts."""
    reference = data.get("roleRef") or {}
    if reference.get("apiGroup", "") != RBAC:
        yield unsupported_value("roleRef.apiGroup", reference.get("apiGroup", ""), (RBAC,))
    if reference.get("kind") not in kinds:
        yield unsupported_value("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield required_value("roleRef.name")
    for number, subject in enumerate(data.get("subjects") or ()):
        path, kind, group = f"subjects[{number}]", subject.get("kind", ""), subject.get("apiGroup", "")
        if not subject.get("name"):
            yield required_value(f"{path}.name")
        if kind not in SUBJECTS:
            yield unsupported_value(f"{path}.kind", kind, SUBJECTS)
        elif kind == "ServiceAccount":
            if name := subject.get("name"):
                yield from invalid_values(f"{path}.name", name, subdomain(name))
            if group:
                yield unsupported_value(f"{path}.apiGroup", group, ("",))
            if "Role" not in kinds and not subject.get("namespace"):
                yield required_value(f"{path}.namespace")
        elif group != RBAC:
            yield unsupported_value(f"{path}.apiGroup", group, (RBAC,))


def ingress(data: Data) -> Iterator[FieldError]:
    """Check an Ingress."""
    spec = data.get("spec") or {}
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified")
    for number, tls in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"spec.tls[{number}].hosts[{index}]")
    if backend is not None:
        yield from _backend(backend, "spec.defaultBackend")
    for number, rule in enumerate(rules):
        path = f"spec.rules[{number}]"
        if host := rule.get("host"):
            yield from _host(host, f"{path}.host", takes_addresses=False)
        if (http := rule.get("http")) is not None:
            yield from _http_paths(http.get("paths") or [], f"{path}.http.paths")


def _http_paths(items: list[Data], path: str) -> Iterator[FieldError]:
    if not items:
        yield required_value(path)
    for number, item in enumerate(items):
        kind, text = item.get("pathType"), item.get("path", "")
        if kind is None:
            yield required_value(f"{path}[{number}].pathType", "pathType must be specified")
        elif kind not in PATH_TYPES:
            yield unsupported_value(f"{path}[{number}].pathType", kind, PATH_TYPES)
        elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
            yield invalid_value(f"{path}[{number}].path", text, "must be an absolute path")
        yield from _backend(item.get("backend") or {}, f"{path}[{number}].backend")


def _host(host: str, path: str, *, takes_addresses: bool = True) -> Iterator[FieldError]:
    if not takes_addresses and is_ip_address(host):
        yield invalid_value(path, host, "must be a DNS name, not an IP address")
    elif "*" not in host:
        yield from invalid_values(path, host, subdomain(host))
    elif not host.startswith("*.") or any(subdomain(host[2:])):
        reason = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain"
        yield invalid_value(path, host, reason)


def _backend(backend: Data, path: str) -> Iterator[FieldError]:
    service = backend.get("service")
    if service is not None and "resource" in backend:
        yield invalid_value(path, "", "cannot set both resource and service backends")
    elif service is None and "resource" not in backend:
        yield invalid_value(path, "", "resource or service backend is required")
    elif service is not None:
        port = service.get("port") or {}
        if not service.get("name"):
            yield required_value(f"{path}.service.name")
        if port.get("name") and port.get("number"):
            yield invalid_value(path, "", "cannot set both port name & port number")
        elif not port.get("name") and not port.get("number"):
            yield required_value(path, "port name or number is required")


def config_map(data: Data) -> Iterator[FieldError]:
    """Check the keys of a config map."""
    yield from _data_keys(data)
    for key in sorted(set(data.get("data") or ()) & set(data.get("binaryData") or ())):
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")


def _data_keys(data: Data) -> Iterator[FieldError]:
    for field in ("data", "binaryData"):
        for key in sorted(data.get(field) or ()):
            yield from invalid_values(f"{field}[{key}]", key, data_key(key))


def secret(data: Data) -> Iterator[FieldError]:
    """Check the keys of a secret, and the required keys of its type."""
    yield from _data_keys(data)
    name, content = data.get("type"), data.get("data") or {}
    if name == "kubernetes.io/service-account-token":
        if not (data["metadata"].get("annotations") or {}).get(ACCOUNT_NAME):
            yield required_value(f"metadata.annotations[{ACCOUNT_NAME}]")
    elif name == "kubernetes.io/basic-auth":
        if content.keys().isdisjoint(("username", "password")):
            yield required_value("data[username]")
            yield required_value("data[password]")
    elif name == "kubernetes.io/ssh-auth":
        if not content.get("ssh-privatekey"):
            yield required_value("data[ssh-privatekey]")
    elif name in JSON_KEYS:
        key = JSON_KEYS[name]
        if key not in content:
            yield required_value(f"data[{key}]")
        elif (problem := _json_problem(content[key])) is not None:
            yield invalid_value(f"data[{key}]", "<secret contents redacted>", problem)
    elif name == "kubernetes.io/tls":
        for key in TLS_KEYS:
            if key not in content:
                yield required_value(f"data[{key}]")


def _json_problem(encoded: str) -> str | None:
    """Return why a value in base64 is not a JSON object, or ``None`` if it is one."""
    try:
        decoded = msgspec.json.decode(b64decode(encoded))
    except (ValueError, msgspec.DecodeError):
        return "invalid character"
    return None if isinstance(decoded, dict) else "json: cannot unmarshal into Go value of type map[string]interface {}"


def api_service(data: Data) -> Iterator[FieldError]:
    """Check the registration of an extension API server."""
    spec = data.get("spec") or {}
    name, group, version = data["metadata"].get("name", ""), spec.get("group", ""), spec.get("version", "")
    if name != f"{version}.{group}":
        yield invalid_value("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{version}.{group}"')
    if not group and version != "v1":
        yield required_value("spec.group", "only v1 may have an empty group and it better be legacy kube")
    for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < (priority := spec.get(field, 0)) <= limit:
            yield invalid_value(f"spec.{field}", priority, f"must be positive and less than {limit}")
    service, is_insecure = spec.get("service"), spec.get("insecureSkipTLSVerify", False)
    if service is None:
        if spec.get("caBundle"):
            yield invalid_value("spec.caBundle", "", "local APIServices may not have a caBundle")
        if is_insecure:
            reason = "local APIServices may not have insecureSkipTLSVerify"
            yield invalid_value("spec.insecureSkipTLSVerify", is_insecure, reason)
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            yield required_value(f"spec.service.{field}")
    if is_insecure and spec.get("caBundle"):
        yield invalid_value("spec.insecureSkipTLSVerify", is_insecure, "may not be true if caBundle is present")


def network_policy(data: Data) -> Iterator[FieldError]:
    """Check a network policy."""
    spec = data.get("spec") or {}
    yield from label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{number}]"
            for index, port in enumerate(rule.get("ports") or ()):
                if port.get("protocol") not in PROTOCOLS:
                    yield unsupported_value(f"{path}.ports[{index}].protocol", port["protocol"], PROTOCOLS)
            for index, peer in enumerate(rule.get(peers) or ()):
                if not peer:
                    yield required_value(f"{path}.{peers}[{index}]", "must specify a peer")
    for number, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in POLICY_TYPES:
            yield unsupported_value(f"spec.policyTypes[{number}]", kind, POLICY_TYPES)
