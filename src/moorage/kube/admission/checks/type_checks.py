"""Validation by type: enumerations, required fields, addresses and ports, at every place where a type occurs.

Each row names a field of a type of the Kubernetes API. Checks that depend on several fields are functions.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final, NamedTuple

from moorage.common.caches import cached
from moorage.kube.admission.checks.names import (
    POSITIVE,
    alphabetic_label,
    data_key,
    dns_label,
    is_ip_address,
    port_name,
    port_number,
    qualified_name,
    subdomain,
)
from moorage.kube.admission.checks.placement import label_selector
from moorage.kube.admission.checks.pod_specs import HUGE, STANDARD
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    invalid_values,
    required_value,
    too_many_items,
    unsupported_value,
)
from moorage.kube.schema import Field, Schema, find_schema

Check = Callable[[Data, str], Iterator[FieldError]]
MAX_WINDOW: Final = 3600
MAX_PERIOD: Final = 1800
MAX_DRIVER: Final = 63
MAX_EXPRESSIONS: Final = 1000
"""Expressions of a policy. Compiling one takes about a millisecond."""
_MUTATED: Final = ("*", "CREATE", "UPDATE")
_PROTOCOLS: Final = "SCTP TCP UDP"
_POLICY: Final = "Fail Ignore"
_MATCH: Final = "Equivalent Exact"
_CHOICES: Final[Mapping[str, str]] = {
    "admissionregistration.v1.MutatingAdmissionPolicySpec.failurePolicy": _POLICY,
    "admissionregistration.v1.MutatingAdmissionPolicySpec.reinvocationPolicy": "IfNeeded Never",
    "admissionregistration.v1.Mutation.patchType": "ApplyConfiguration JSONPatch",
    **{
        f"admissionregistration.v1.{kind}.operations": "* CONNECT CREATE DELETE UPDATE"
        for kind in ("RuleWithOperations", "NamedRuleWithOperations")
    },
    "admissionregistration.v1.MutatingWebhook.failurePolicy": _POLICY,
    "admissionregistration.v1.MutatingWebhook.matchPolicy": _MATCH,
    "admissionregistration.v1.MutatingWebhook.reinvocationPolicy": "IfNeeded Never",
    **{
        f"admissionregistration.v1.{kind}Webhook.sideEffects": "None NoneOnDryRun"
        for kind in ("Mutating", "Validating")
    },
    "admissionregistration.v1.RuleWithOperations.scope": "* Cluster Namespaced",
    "admissionregistration.v1.ValidatingWebhook.failurePolicy": _POLICY,
    "admissionregistration.v1.ValidatingWebhook.matchPolicy": _MATCH,
    "apiextensions.v1.CustomResourceConversion.strategy": "None Webhook",
    "autoscaling.v2.HPAScalingPolicy.type": "Percent Pods",
    "autoscaling.v2.HPAScalingRules.selectPolicy": "Disabled Max Min",
    "autoscaling.v2.MetricSpec.type": "ContainerResource External Object Pods Resource",
    "batch.v1.JobSpec.podReplacementPolicy": "Failed TerminatingOrFailed",
    "batch.v1.PodFailurePolicyRule.action": "Count FailIndex FailJob Ignore",
    "core.v1.Container.restartPolicy": "Always Never OnFailure",
    "apps.v1.StatefulSetSpec.podManagementPolicy": "OrderedReady Parallel",
    "core.v1.EndpointPort.protocol": _PROTOCOLS,
    "core.v1.HTTPGetAction.scheme": "HTTP HTTPS",
    "core.v1.SeccompProfile.type": "Localhost RuntimeDefault Unconfined",
    "core.v1.HostPathVolumeSource.type": "BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket",
    "core.v1.PersistentVolumeClaimSpec.volumeMode": "Block Filesystem",
    "core.v1.PersistentVolumeSpec.persistentVolumeReclaimPolicy": "Delete Recycle Retain",
    "core.v1.PersistentVolumeSpec.volumeMode": "Block Filesystem",
    "core.v1.PodOS.name": "linux windows",
    "core.v1.PodSpec.preemptionPolicy": "PreemptLowerPriority Never",
    "core.v1.ServicePort.protocol": _PROTOCOLS,
    "core.v1.ServiceSpec.internalTrafficPolicy": "Cluster Local",
    "core.v1.ServiceSpec.ipFamilies": "IPv4 IPv6",
    "core.v1.ServiceSpec.ipFamilyPolicy": "PreferDualStack RequireDualStack SingleStack",
    "core.v1.ServiceSpec.sessionAffinity": "ClientIP None",
    "core.v1.ServiceSpec.trafficDistribution": "PreferClose PreferSameZone PreferSameNode",
    "core.v1.ServiceSpec.type": "ClusterIP ExternalName LoadBalancer NodePort",
    "discovery.v1.EndpointPort.protocol": _PROTOCOLS,
    "discovery.v1.EndpointSlice.addressType": "FQDN IPv4 IPv6",
    "policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy": "AlwaysAllow IfHealthyBudget",
    "storage.v1.CSIDriverSpec.fsGroupPolicy": "File None ReadWriteOnceWithFSType",
    "storage.v1.CSIDriverSpec.volumeLifecycleModes": "Persistent Ephemeral",
}
"""The values that a field or the items of a list may have."""
_REVIEWS: Final = "must specify one of v1, v1beta1"
_EFFECTS: Final = "must specify one of None, NoneOnDryRun"
_REQUIRED: Final[Mapping[str, str]] = {
    "admissionregistration.v1.MutatingWebhook.admissionReviewVersions": _REVIEWS,
    "admissionregistration.v1.MutatingWebhook.name": "",
    "admissionregistration.v1.MutatingWebhook.sideEffects": _EFFECTS,
    **{
        f"admissionregistration.v1.{kind}.{field}": ""
        for kind in ("RuleWithOperations", "NamedRuleWithOperations")
        for field in ("apiGroups", "apiVersions", "operations", "resources")
    },
    "admissionregistration.v1.ParamRef.parameterNotFoundAction": "",
    "admissionregistration.v1.ServiceReference.name": "",
    "admissionregistration.v1.ServiceReference.namespace": "",
    "admissionregistration.v1.MutatingAdmissionPolicyBindingSpec.policyName": "",
    "admissionregistration.v1.MutatingAdmissionPolicySpec.matchConstraints": "",
    "admissionregistration.v1.MutatingAdmissionPolicySpec.mutations": "mutations must contain at least one item",
    "admissionregistration.v1.MutatingAdmissionPolicySpec.reinvocationPolicy": "",
    "admissionregistration.v1.Mutation.patchType": "",
    "admissionregistration.v1.ApplyConfiguration.expression": "",
    "admissionregistration.v1.JSONPatch.expression": "",
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.policyName": "",
    "admissionregistration.v1.ValidatingAdmissionPolicySpec.matchConstraints": "",
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.validationActions": "",
    "admissionregistration.v1.ValidatingWebhook.admissionReviewVersions": _REVIEWS,
    "admissionregistration.v1.ValidatingWebhook.name": "",
    "admissionregistration.v1.ValidatingWebhook.sideEffects": _EFFECTS,
    "autoscaling.v2.CrossVersionObjectReference.kind": "",
    "autoscaling.v2.CrossVersionObjectReference.name": "",
    "autoscaling.v2.HorizontalPodAutoscalerSpec.maxReplicas": "",
    "autoscaling.v2.MetricSpec.type": "must specify a metric source type",
    "core.v1.ConfigMapKeySelector.key": "",
    "core.v1.EnvVar.name": "",
    "core.v1.HostPathVolumeSource.path": "",
    "core.v1.KeyToPath.key": "",
    "core.v1.KeyToPath.path": "",
    "core.v1.NFSVolumeSource.path": "",
    "core.v1.NFSVolumeSource.server": "",
    "core.v1.SecretKeySelector.key": "",
    "core.v1.VolumeNodeAffinity.required": "must specify required node constraints",
    "discovery.v1.Endpoint.addresses": "",
    "discovery.v1.EndpointSlice.addressType": "",
    "networking.v1.IngressClassSpec.controller": "",
    "node.v1.RuntimeClass.handler": "",
    "storage.v1.CSINodeDriver.name": "",
    "storage.v1.CSINodeDriver.nodeID": "",
}
"""Fields without which an object is invalid, and the explanation in the message."""
_ADDRESSES: Final = frozenset(("core.v1.EndpointAddress.ip", "core.v1.HostAlias.ip", "core.v1.ServiceSpec.externalIPs"))
_PORTS: Final = frozenset(("core.v1.EndpointPort.port", "core.v1.TCPSocketAction.port", "core.v1.HTTPGetAction.port"))
_OPTIONAL_PORTS: Final = frozenset(
    (
        *("core.v1.ServicePort.targetPort", "networking.v1.NetworkPolicyPort.port"),
        "networking.v1.ServiceBackendPort.number",
    )
)
_MODE: Final = (0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
_ID: Final = (0, 2**31 - 1, "must be between 0 and 2147483647, inclusive")
_RANGES: Final[Mapping[str, tuple[int, int, str]]] = {
    **{
        f"core.v1.{kind}VolumeSource.defaultMode": _MODE for kind in ("ConfigMap", "DownwardAPI", "Projected", "Secret")
    },
    **{f"core.v1.{kind}.mode": _MODE for kind in ("KeyToPath", "DownwardAPIVolumeFile")},
    **{
        f"core.v1.{kind}.{field}": _ID
        for kind in ("PodSecurityContext", "SecurityContext")
        for field in ("runAsUser", "runAsGroup", "fsGroup")
    },
}
"""Limits of numbers, and the message for other values."""
_TEXTS: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "core.v1.ConfigMapKeySelector.key": data_key,
    "core.v1.ConfigMapKeySelector.name": subdomain,
    "core.v1.PersistentVolumeClaimSpec.storageClassName": subdomain,
    "core.v1.PersistentVolumeSpec.storageClassName": subdomain,
    "core.v1.PodSpec.nodeName": subdomain,
    "core.v1.PodSpec.priorityClassName": subdomain,
    "core.v1.PodSpec.serviceAccountName": subdomain,
    "core.v1.SecretKeySelector.key": data_key,
    "core.v1.SecretKeySelector.name": subdomain,
    "networking.v1.IngressServiceBackend.name": dns_label,
    "storage.v1.StorageClass.provisioner": lambda text: qualified_name(text.lower()),
    **{
        f"admissionregistration.v1.{kind}Webhook.admissionReviewVersions": alphabetic_label
        for kind in ("Mutating", "Validating")
    },
}
"""Checks of names."""
_SCOPES: Final = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
    *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
NOT_A_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
NOT_AN_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_FIELD_REFERENCES: Final = frozenset(
    (
        *("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"),
        *("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
        "status.podIPs",
    )
)


def _webhook(webhook: Data, path: str) -> Iterator[FieldError]:
    config = webhook.get("clientConfig") or {}
    if ("url" in config) == ("service" in config):
        yield required_value(f"{path}.clientConfig", "exactly one of url or service is required")
    service_path = (config.get("service") or {}).get("path")
    if service_path and not service_path.startswith("/"):
        yield invalid_value(f"{path}.clientConfig.service.path", service_path, "must start with a '/'")
    if name := webhook.get("name"):
        problems = list(subdomain(name))
        yield from invalid_values(f"{path}.name", name, problems)
        if not problems and name.count(".") < 2:
            yield invalid_value(
                f"{path}.name", name, "should be a domain with at least three segments separated by dots"
            )


def _autoscaler(spec: Data, path: str) -> Iterator[FieldError]:
    target, least = spec.get("scaleTargetRef") or {}, spec.get("minReplicas", 1)
    if least < 1:
        yield invalid_value(f"{path}.minReplicas", least, "must be greater than or equal to 1")
    if spec.get("maxReplicas", 0) < least:
        reason = "must be greater than or equal to `minReplicas`"
        yield invalid_value(f"{path}.maxReplicas", spec.get("maxReplicas", 0), reason)
    if not target.get("apiVersion") and target.get("kind") != "ReplicationController":
        yield invalid_value(f"{path}.scaleTargetRef.apiVersion", "", "apiVersion must specify API group")


def _scaling_rules(rules: Data, path: str) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield invalid_value(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    elif window is not None and window > MAX_WINDOW:
        reason = f"must be less than or equal to {MAX_WINDOW}"
        yield invalid_value(f"{path}.stabilizationWindowSeconds", window, reason)
    for number, policy in enumerate(rules.get("policies") or ()):
        item_path, period = f"{path}.policies[{number}]", policy.get("periodSeconds", 0)
        if policy.get("value", 0) <= 0:
            yield invalid_value(f"{item_path}.value", policy.get("value", 0), POSITIVE)
        if period <= 0:
            yield invalid_value(f"{item_path}.periodSeconds", period, POSITIVE)
        elif period > MAX_PERIOD:
            yield invalid_value(f"{item_path}.periodSeconds", period, f"must be less than or equal to {MAX_PERIOD}")


def _csi_source(source: Data, path: str) -> Iterator[FieldError]:
    driver = source.get("driver", "")
    if not driver:
        yield required_value(f"{path}.driver")
    elif len(driver) > MAX_DRIVER:
        yield FieldError("FieldValueTooLong", f"Too long: may not be more than {MAX_DRIVER} bytes", f"{path}.driver")
    else:
        yield from invalid_values(f"{path}.driver", driver, subdomain(driver.lower()))
    if not source.get("volumeHandle"):
        yield required_value(f"{path}.volumeHandle")


def _service(spec: Data, path: str) -> Iterator[FieldError]:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required_value(f"{path}.externalName")
    if kind in ("LoadBalancer", "NodePort") and spec.get("clusterIP") == "None":
        yield invalid_value(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    for field in ("loadBalancerClass", "allocateLoadBalancerNodePorts"):
        if field in spec and kind != "LoadBalancer":
            yield forbidden_field(f"{path}.{field}", "may only be used when `type` is 'LoadBalancer'")
    if "healthCheckNodePort" in spec and (kind != "LoadBalancer" or spec.get("externalTrafficPolicy") != "Local"):
        reason = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid_value(f"{path}.healthCheckNodePort", spec["healthCheckNodePort"], reason)
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        reason = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden_field(f"{path}.LoadBalancerSourceRanges", reason)
    yield from _source_ranges(spec, path)
    is_external = kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    if (policy := spec.get("externalTrafficPolicy")) and not is_external:
        reason = "may only be set for externally-accessible services"
        yield invalid_value(f"{path}.externalTrafficPolicy", policy, reason)
    names, numbers = set(), set()
    for index, port in enumerate(ports):
        location, name, number = (
            f"{path}.ports[{index}]",
            port.get("name", ""),
            (port.get("protocol"), port.get("port")),
        )
        if not name and len(ports) > 1:
            yield required_value(f"{location}.name")
        elif name:
            yield from invalid_values(f"{location}.name", name, dns_label(name))
            if name in names:
                yield duplicate_value(f"{location}.name", name)
        if number in numbers:
            yield duplicate_value(location, {"Port": number[1], "Protocol": number[0]})
        if port.get("nodePort") and kind == "ClusterIP":
            yield forbidden_field(f"{location}.nodePort", "may not be used when `type` is 'ClusterIP'")
        names.add(name)
        numbers.add(number)


def _job(spec: Data, path: str) -> Iterator[FieldError]:
    if spec.get("completionMode") != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                yield invalid_value(f"{path}.{field}", spec[field], "requires indexed completion mode")
        if "successPolicy" in spec:
            yield invalid_value(f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode")
    if (manager := spec.get("managedBy")) is not None and "/" not in manager:
        reason = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid_value(f"{path}.managedBy", manager, reason)


def _container(container: Data, path: str) -> Iterator[FieldError]:
    for source in container.get("envFrom") or ():
        if not source.get("configMapRef") and not source.get("secretRef"):
            yield invalid_value(f"{path}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
    mounts = [mount.get("mountPath") for mount in container.get("volumeMounts") or ()]
    for index, mount in enumerate(mounts):
        if mount and mount in mounts[:index]:
            yield invalid_value(f"{path}.volumeMounts[{index}].mountPath", mount, "must be unique")
    for item in container.get("resizePolicy") or ():
        if item.get("resourceName") not in ("cpu", "memory"):
            yield unsupported_value(f"{path}.resizePolicy", item.get("resourceName", ""), ("cpu", "memory"))
    if ".initContainers[" in path and "lifecycle" in container and container.get("restartPolicy") != "Always":
        yield forbidden_field(f"{path}.lifecycle", "may not be set for init containers without restartPolicy=Always")
    if container.get("restartPolicyRules") and "restartPolicy" not in container:
        yield required_value(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")


def _field_reference(reference: Data, path: str) -> Iterator[FieldError]:
    field, version = reference.get("fieldPath", ""), reference.get("apiVersion")
    if not field:
        yield required_value(f"{path}.fieldPath")
    elif version != "v1":
        reason = f"error converting fieldPath: unsupported pod version: {version}"
        yield invalid_value(f"{path}.fieldPath", field, reason)
    elif field not in _FIELD_REFERENCES and not field.startswith(("metadata.labels['", "metadata.annotations['")):
        reason = f"error converting fieldPath: field label not supported: {field}"
        yield invalid_value(f"{path}.fieldPath", field, reason)


def _source_ranges(spec: Data, path: str) -> Iterator[FieldError]:
    for index, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        if not is_address_range(block.strip()):
            yield invalid_value(f"{path}.LoadBalancerSourceRanges[{index}]", block, NOT_A_RANGE)


LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_BOUNDS: Final = (
    ("min", "max", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "default request", "max"),
    ("min", "default", "default", "min", "default"),
    ("default", "max", "default", "default", "max"),
    ("defaultRequest", "default", "defaultRequest", "default request", "default limit"),
)
"""Amounts of a limit range of which the first must not exceed the second: the field of the error, and their names."""


def _bounds(item: Data, path: str) -> Iterator[FieldError]:
    for low, high, field, low_name, high_name in _BOUNDS:
        for name, amount in (item.get(low) or {}).items():
            most = (item.get(high) or {}).get(name)
            if most is not None and nano_value(amount) > nano_value(most):
                reason = f"{low_name} value {amount} is greater than {high_name} value {most}"
                yield invalid_value(f"{path}.{field}[{name}]", str(amount), reason)


def _limit(item: Data, path: str) -> Iterator[FieldError]:
    kind = item.get("type", "")
    yield from invalid_values(f"{path}.type", kind, qualified_name(kind))
    if "/" not in kind and kind not in LIMIT_TYPES:
        yield invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified")
    yield from _bounds(item, path)
    for field in ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio"):
        for name in (item.get(field) or ()) if item.get("type") in ("Pod", "Container") else ():
            if "/" not in name and name not in STANDARD and not name.startswith(HUGE):
                reason = "must be a standard resource type or fully qualified"
                yield invalid_value(f"{path}.{field}[{name}]", name, reason)


def _probe(probe: Data, path: str) -> Iterator[FieldError]:
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if (number := probe.get(field, 0)) < 0:
            yield invalid_value(f"{path}.{field}", number, "must be greater than or equal to 0")
    if path.endswith(("livenessProbe", "startupProbe")) and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
    if path.endswith("readinessProbe") and (seconds := probe.get("terminationGracePeriodSeconds")) is not None:
        yield invalid_value(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")


def _subset(subset: Data, path: str) -> Iterator[FieldError]:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required_value(path, "must specify `addresses` or `notReadyAddresses`")


def _policy(spec: Data, path: str) -> Iterator[FieldError]:
    if not (spec.get("validations") or spec.get("auditAnnotations")):
        reason = "validations or auditAnnotations must contain at least one item"
        yield required_value(f"{path}.validations", reason)
        yield required_value(f"{path}.auditAnnotations", reason)
    yield from _expressions(spec, path)


def _expressions(spec: Data, path: str) -> Iterator[FieldError]:
    fields = ("validations", "mutations", "variables", "matchConditions", "auditAnnotations")
    if (count := sum(len(spec.get(field) or ()) for field in fields)) > MAX_EXPRESSIONS:
        yield too_many_items(path, count, MAX_EXPRESSIONS)


def _mutating_policy(spec: Data, path: str) -> Iterator[FieldError]:
    match = spec.get("matchConstraints")
    if match is not None and not match.get("resourceRules"):
        yield required_value(f"{path}.matchConstraints.resourceRules")
    yield from _mutated_operations(match or {}, f"{path}.matchConstraints")
    yield from _expressions(spec, path)


def _mutating_binding(spec: Data, path: str) -> Iterator[FieldError]:
    yield from _mutated_operations(spec.get("matchResources") or {}, f"{path}.matchResources")


def _mutated_operations(match: Data, path: str) -> Iterator[FieldError]:
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATED:
                yield unsupported_value(f"{path}.resourceRules.operations", operation, _MUTATED)


def _mutation(mutation: Data, path: str) -> Iterator[FieldError]:
    fields = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
    patch_type = mutation.get("patchType")
    for name, field in fields.items() if patch_type in fields else ():
        if name == patch_type and mutation.get(field) is None:
            yield required_value(f"{path}.{field}", f"must be specified when patchType is {patch_type}")
        elif name != patch_type and mutation.get(field) is not None:
            reason = f"must not be specified when patchType is {patch_type}"
            yield invalid_value(f"{path}.{field}", f"{{{field}}}", reason)


def _address_block(block: Data, path: str) -> Iterator[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        yield required_value(f"{path}.cidr")
    elif not is_address_range(cidr):
        yield invalid_value(f"{path}.cidr", cidr, NOT_A_RANGE)
    for number, item in enumerate(block.get("except") or ()):
        if not is_address_range(item):
            yield invalid_value(f"{path}.except[{number}]", item, NOT_A_RANGE)
        elif is_address_range(cidr) and not _is_within(item, cidr):
            yield invalid_value(f"{path}.except[{number}]", item, "must be a strict subset of `cidr`")


def is_address_range(text: str) -> bool:
    """Return whether a text is an IP address with the length of its prefix."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_within(inner: str, outer: str) -> bool:
    within, around = ip_network(inner, strict=False), ip_network(outer, strict=False)
    same_family = within.version == around.version
    return same_family and within.prefixlen > around.prefixlen and within.network_address in around


def _driver(spec: Data, path: str) -> Iterator[FieldError]:
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        reason = "must be greater than or equal to 10 seconds"
        yield invalid_value(f"{path}.nodeAllocatableUpdatePeriodSeconds", period, reason)
    if spec.get("serviceAccountTokenInSecrets") is True and not spec.get("tokenRequests"):
        reason = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid_value(f"{path}.serviceAccountTokenInSecrets", True, reason)


def _revision(revision: Data, _path: str) -> Iterator[FieldError]:
    if revision.get("data") is None:
        yield required_value("data", "data is mandatory")


def _quota(spec: Data, path: str) -> Iterator[FieldError]:
    if unknown := [scope for scope in spec.get("scopes") or () if scope not in _SCOPES]:
        yield invalid_value(f"{path}.scopes", unknown, "unsupported scope")
    location = f"{path}.scopeSelector.matchExpressions"
    for requirement in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        if scope not in _SCOPES:
            yield invalid_value(f"{location}.scopeName", scope, "unsupported scope")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid_value(f"{location}.operator", operator, "not a valid selector operator")


def _volume(spec: Data, path: str) -> Iterator[FieldError]:
    if spec.get("nodeAffinity") == {}:
        yield required_value(f"{path}.nodeAffinity.required", "must specify required node constraints")
    if "volumeAttributesClassName" in spec and "csi" not in spec:
        yield required_value(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def _claim(spec: Data, path: str) -> Iterator[FieldError]:
    source = spec.get("dataSourceRef") or {}
    if source and not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        reason = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid_value(f"{path}.dataSourceRef", source.get("kind", ""), reason)


def _policy_port(port: Data, path: str) -> Iterator[FieldError]:
    first, last = port.get("port"), port.get("endPort")
    if last is not None and not isinstance(first, int):
        reason = "is not specified" if first is None else "is non-numeric"
        yield invalid_value(f"{path}.endPort", last, f"may not be specified when `port` {reason}")
    elif last is not None and isinstance(first, int) and last < first:
        yield invalid_value(f"{path}.endPort", last, "must be greater than or equal to `port`")


_FUNCTIONS: Final[Mapping[str, Check]] = {
    "admissionregistration.v1.MutatingAdmissionPolicyBindingSpec": _mutating_binding,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": _mutating_policy,
    "admissionregistration.v1.Mutation": _mutation,
    "admissionregistration.v1.MutatingWebhook": _webhook,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": _policy,
    "admissionregistration.v1.ValidatingWebhook": _webhook,
    "apps.v1.ControllerRevision": _revision,
    "autoscaling.v2.HPAScalingRules": _scaling_rules,
    "autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler,
    "batch.v1.JobSpec": _job,
    "core.v1.CSIPersistentVolumeSource": _csi_source,
    "core.v1.Container": _container,
    "core.v1.EndpointSubset": _subset,
    "core.v1.LimitRangeItem": _limit,
    "core.v1.ObjectFieldSelector": _field_reference,
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.PersistentVolumeSpec": _volume,
    "core.v1.Probe": _probe,
    "core.v1.ResourceQuotaSpec": _quota,
    "core.v1.ServiceSpec": _service,
    "meta.v1.LabelSelector": label_selector,
    "networking.v1.IPBlock": _address_block,
    "networking.v1.NetworkPolicyPort": _policy_port,
    "storage.v1.CSIDriverSpec": _driver,
}


def type_problems(data: Data, schema: Schema, path: str = "") -> Iterator[FieldError]:
    """Yield the errors of an object by the types of its fields, after defaults were set."""
    rows, below, check = _plan(schema.name)
    prefix = f"{path}." if path else ""
    for row in rows:
        yield from _field_problems(row, data.get(row.field), f"{prefix}{row.field}")
    if check is not None:
        yield from check(data, path)
    for nested in below:
        content, field_path, inner = data.get(nested.name), f"{prefix}{nested.name}", nested.schema
        if inner is None or not (content or field_path == "spec"):
            continue
        if not nested.shape:
            # The spec of an object is never absent in Go, only empty.
            yield from type_problems(content or {}, inner, field_path)
        elif isinstance(content, list):
            for number, item in enumerate(content):
                yield from type_problems(item or {}, inner, f"{field_path}[{number}]")


def _port(content: Any, path: str) -> Iterator[FieldError]:
    if isinstance(content, str):
        yield from invalid_values(path, content, port_name(content))
    else:
        yield from port_number(content, path)


class _Row(NamedTuple):
    """The checks of a field. ``is_port`` is None for ports that may be absent."""

    field: str
    required: str | None
    supported: tuple[str, ...]
    is_address: bool
    is_port: bool | None
    limits: tuple[int, int, str] | None
    check_text: Callable[[str], Iterator[str]] | None

    @property
    def has_checks(self) -> bool:
        """Whether there is a check."""
        return self.required is not None or self.is_port is None or any(self[2:])


def _field_problems(row: _Row, content: Any, path: str) -> Iterator[FieldError]:
    if not content and row.required is not None:
        yield required_value(path, row.required)
    items = (
        [(path, content)]
        if not isinstance(content, list)
        else [(f"{path}[{number}]", item) for number, item in enumerate(content)]
    )
    for location, item in items if content else ():
        if row.supported and item not in row.supported:
            yield unsupported_value(location, item, row.supported)
        if row.is_address and not is_ip_address(item):
            yield invalid_value(location, item, NOT_AN_ADDRESS)
        if row.check_text is not None and isinstance(item, str):
            yield from invalid_values(location, item, row.check_text(item))
    if row.is_port or (row.is_port is None and content is not None):
        yield from _port(content or 0, path)
    if row.limits is not None and isinstance(content, int) and not row.limits[0] <= content <= row.limits[1]:
        yield invalid_value(path, content, row.limits[2])


def _row(name: str, field: str) -> _Row:
    key = f"{name}.{field}"
    return _Row(
        *(field, _REQUIRED.get(key), tuple(_CHOICES.get(key, "").split()), key in _ADDRESSES),
        *(None if key in _OPTIONAL_PORTS else key in _PORTS, _RANGES.get(key), _TEXTS.get(key)),
    )


@cached(1024)
def _plan(type_name: str) -> tuple[tuple[_Row, ...], tuple[Field, ...], Check | None]:
    """Return the rows of a type, its fields that lead to other rows, and its function."""
    schema = find_schema(type_name)
    assert schema is not None
    name = ".".join(type_name.rsplit(".", 3)[1:])
    rows = [row for field in schema.by_name if (row := _row(name, field)).has_checks]
    below = [field for field in schema.by_name.values() if _has_rows(field.type, frozenset((type_name,)))]
    return tuple(rows), tuple(below), _FUNCTIONS.get(name)


@cached(4096)
def _has_rows(type_name: str, above: frozenset[str]) -> bool:
    """Return whether a type or one of its fields has checks."""
    schema = find_schema(type_name)
    if schema is None or type_name in above:
        return False
    name = ".".join(type_name.rsplit(".", 3)[1:])
    has_own = any(_row(name, field).has_checks for field in schema.by_name)
    inner = above | {type_name}
    return has_own or name in _FUNCTIONS or any(_has_rows(field.type, inner) for field in schema.by_name.values())
