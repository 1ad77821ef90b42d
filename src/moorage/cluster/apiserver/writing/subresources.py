"""Subresources: binding and eviction of pods, scale of workloads."""

from collections.abc import Callable
from typing import Final

from moorage.cluster.apiserver.requests.request import Target
from moorage.cluster.apiserver.writing.writer import DeleteOptions, WriteOptions, Writer
from moorage.common.errors import ApiError, TooManyRequests
from moorage.kube.admission.checks.names import NOT_NEGATIVE
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import format_time
from moorage.kube.api.selectors import label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import invalid_value, required_value
from moorage.kube.plain_data import find
from moorage.kube.resources import ServedResource, served
from moorage.kube.status_errors import bad_request, conflict, eviction_blocked, invalid, success_status

BUDGETS: Final = "poddisruptionbudgets.policy"
_SCALES: Final = ServedResource("Scale", "autoscaling", "v1", "scales")
_BUDGETS: Final = served(BY_NAME["PodDisruptionBudget"])


def bind(writer: Writer, target: Target, binding: Data, *, is_dry_run: bool) -> Data:
    """Bind a pod to a node, once, and set its PodScheduled condition."""
    entry = writer.find(target)
    pod = entry.data
    node = binding.get("target")
    node_name = node.get("name", "") if isinstance(node, dict) else ""
    if not isinstance(node_name, str) or not node_name:
        raise invalid(target.resource, target.name, [required_value("target.name")])
    if isinstance(node, dict) and node.get("kind") not in (None, "", "Node"):
        raise invalid(target.resource, target.name, [invalid_value("target.kind", node["kind"], "must be Node")])
    metadata, spec = pod["metadata"], pod["spec"]
    uid = binding["metadata"].get("uid")
    if uid and uid != metadata["uid"]:
        reason = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise conflict(target.resource, target.name, reason, "binding")
    conflicts = {
        "is being deleted, cannot be assigned to a host": "deletionTimestamp" in metadata,
        f'is already assigned to node "{spec.get("nodeName")}"': spec.get("nodeName"),
        "has non-empty .spec.schedulingGates": spec.get("schedulingGates"),
    }
    for reason, applies in conflicts.items():
        if applies:
            raise conflict(target.resource, target.name, f"pod {target.name} {reason}", "binding")
    spec["nodeName"] = node_name
    annotations = binding["metadata"].get("annotations")
    if isinstance(annotations, dict) and annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    now = format_time(writer.clock.now())
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    unchanged = [item for item in status.get("conditions") or () if item.get("type") != "PodScheduled"]
    status["conditions"] = [*unchanged, condition]
    if not is_dry_run:
        writer.store.put("pods", entry.key, pod)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def evict(writer: Writer, target: Target, eviction: Data) -> Data:
    """Delete a pod if the disruption budgets that cover it allow that; 429 if they do not."""
    options = eviction.get("deleteOptions")
    if options is not None and not isinstance(options, dict):
        raise bad_request("deleteOptions: an object is expected")
    delete_options = DeleteOptions.read({}, options or {})
    pod = writer.find(target).data
    # Pods that have ended, never started, or are terminating count for no budget.
    is_exempt = (
        find(pod, "status.phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]
    )
    if not is_exempt:
        _take_from_budget(writer, target, pod, is_dry_run=delete_options.is_dry_run)
    writer.delete(target, delete_options)
    return success_status(target.resource, target.name, "") | {"code": 201}


def _take_from_budget(writer: Writer, target: Target, pod: Data, *, is_dry_run: bool) -> None:
    labels = pod["metadata"].get("labels") or {}
    entries = ((entry, entry.typed(PodDisruptionBudget)) for entry in writer.store.sorted(BUDGETS, target.namespace))
    budgets = [entry for entry, budget in entries if label_matcher(budget.spec.selector).matches(labels)]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(message, status=500, reason="InternalError")
    if not budgets:
        return
    data = budgets[0].data
    name, status = data["metadata"]["name"], data.get("status") or {}
    if _is_broken_already(pod, data, status):
        return
    if status.get("observedGeneration", 0) < data["metadata"].get("generation", 0):
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} is still being processed by the server.",
        }
        raise TooManyRequests(
            message, status=429, reason="TooManyRequests", retry_after=10, details={"causes": [cause]}
        )
    disruptions_allowed = status.get("disruptionsAllowed", 0)
    if disruptions_allowed <= 0:
        raise eviction_blocked(name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))
    disrupted = {**(status.get("disruptedPods") or {}), target.name: format_time(writer.clock.now())}
    new = {**status, "disruptionsAllowed": disruptions_allowed - 1, "disruptedPods": disrupted}
    budget_target = Target(_BUDGETS, target.namespace, name)
    options = WriteOptions(is_dry_run=is_dry_run, manager="moorage", subresource="status")
    writer.change(budget_target, lambda budget: budget | {"status": new}, options)


def _is_broken_already(pod: Data, budget: Data, status: Data) -> bool:
    """Return whether the pod is not ready: its eviction does not count for the budget."""
    conditions = find(pod, "status.conditions", [])
    if any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions):
        return False
    if find(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def get_scale(data: Data) -> Data:
    """Return the Scale of a workload."""
    metadata = data["metadata"]
    selector = find(data, "spec.selector", {})
    labels = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
    text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if isinstance(value, str))
    copied = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in copied if name in metadata},
        "spec": {"replicas": find(data, "spec.replicas", 0)},
        "status": {"replicas": find(data, "status.replicas", 0), "selector": text},
    }


def change_scale(writer: Writer, target: Target, edit: Callable[[Data], Data], options: WriteOptions) -> Data:
    """Change the replicas of a workload. Return its new Scale."""

    def rescale(data: Data) -> Data:
        new = edit(get_scale(data))
        spec = new.get("spec")
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise bad_request("spec.replicas: a number is expected")
        if not 0 <= replicas < 2**31:
            raise invalid(_SCALES, target.name, [invalid_value("spec.replicas", replicas, NOT_NEGATIVE)])
        version = new["metadata"].get("resourceVersion") if isinstance(new.get("metadata"), dict) else None
        data["metadata"]["resourceVersion"] = version or data["metadata"]["resourceVersion"]
        data.setdefault("spec", {})["replicas"] = replicas
        return data

    return get_scale(writer.change(target, rescale, options).data)
