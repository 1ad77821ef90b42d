"""Remedies for pods that the API server rejects for other reasons than quotas: missing objects, policies, webhooks."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from moorage.insight.explain.explanation import PossibleChange
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import CONTAINERS, Draft
from moorage.insight.whatif.edits import CreateObject
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import NamedWorkload
from moorage.kube.admission.checks.rules import SYSTEM_CLASSES

POD_SECURITY: Final = re.compile(r'violates PodSecurity "(\w+):[^"]*": (.*)')
NO_ACCOUNT: Final = re.compile(r'serviceaccount "([^"]+)" not found')
FAILED_WEBHOOK: Final = re.compile(r'failed calling webhook "([^"]+)"')
WEBHOOK_SERVICE: Final = re.compile(r"https://([\w-]+)\.([\w-]+)\.svc")
DENIED: Final = re.compile(r'admission webhook "([^"]+)" denied the request: (.*)', re.DOTALL)
POLICY: Final = re.compile(r"ValidatingAdmissionPolicy '([^']+)'.* denied request: (.*)", re.DOTALL)
NO_RUNTIME_CLASS: Final = re.compile(r'RuntimeClass "([^"]+)" not found')
SELECTOR_CONFLICT: Final = re.compile(
    r"runtimeClass\.scheduling\.nodeSelector\[([^]]+)\] = (\S+); pod\.spec\.nodeSelector\[[^]]+\] = (\S+)"
)
OVERHEAD: Final = re.compile(r"Pod(?:'s)? Overhead (?:doesn't match|set without)")
TERMINATING: Final = re.compile(r"namespace (\S+) because it is being terminated")
HOST_FIELDS: Final = ("hostNetwork", "hostPID", "hostIPC")
ENFORCE: Final = "pod-security.kubernetes.io/enforce"


def suggest_remedies(workload: NamedWorkload, message: str) -> Iterator[PossibleChange]:
    """Suggest what to do about a rejection. Some remedies are outside of the cluster's objects and have no edits."""
    if match := NO_ACCOUNT.search(message):
        metadata = {"name": match[1], "namespace": workload.id.namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        text = f"Create the service account {match[1]}, or correct serviceAccountName"
        yield PossibleChange(text, "service-account", [CreateObject(account).as_data()])
    elif match := POD_SECURITY.search(message):
        yield from _meet_pod_security(workload, match[1], match[2])
    elif match := FAILED_WEBHOOK.search(message):
        service = WEBHOOK_SERVICE.search(message)
        service_text = f"the service {service[1]} in namespace {service[2]}" if service else "its service"
        text = f"Repair the webhook {match[1]}: {service_text} does not respond, and no pod is created until it does"
        yield PossibleChange(text, "webhook", [])
    elif match := DENIED.search(message) or POLICY.search(message):
        owner = "webhook" if match.re is DENIED else "policy"
        yield PossibleChange(f"Change the pod template as the {owner} {match[1]} requires: {match[2]}", owner, [])
    elif match := TERMINATING.search(message):
        text = f"Wait until the namespace {match[1]} is deleted, create it again, and apply the workload"
        yield PossibleChange(text, "namespace", [])
    else:
        yield from _meet_runtime_class(workload, message)


def _meet_runtime_class(workload: NamedWorkload, message: str) -> Iterator[PossibleChange]:
    """Change a template that contradicts its runtime class, or create a missing class."""
    draft = Draft(workload.id, workload.content, must_replace=workload.id.kind == "Job")
    path, name = (*workload.path, "spec"), (workload.spec["template"]["spec"] or {}).get("runtimeClassName")
    if match := SELECTOR_CONFLICT.search(message):
        draft.put((*path, "nodeSelector", match[1]), match[2])
        text = f"Change {match[1]} in its node selector from {match[3]} to {match[2]}"
        yield PossibleChange(f"{text}, as the runtime class {name} requires", "selector", [draft.edit().as_data()])
    elif OVERHEAD.search(message):
        draft.remove(*path, "overhead")
        reason = f"the runtime class {name} determines it" if name else "only a runtime class determines it"
        text = f"Remove overhead from the pod template: {reason}"
        yield PossibleChange(text, "runtime-class", [draft.edit().as_data()])
    elif match := NO_RUNTIME_CLASS.search(message):
        yield create_runtime_class(match[1])


def create_runtime_class(name: str) -> PossibleChange:
    """Create a runtime class whose handler has the same name."""
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    text = f"Create the runtime class {name}, if the nodes have its handler, or correct runtimeClassName"
    return PossibleChange(text, "runtime-class", [CreateObject({**head, "handler": name}).as_data()])


def change_class(workload: NamedWorkload, field: str, name: str, names: Sequence[str]) -> list[PossibleChange]:
    """Correct the name of a class in a pod template. Without a similar one, offer those that exist."""
    intended = find_intended(name, names) or _find_similar(name, names)
    if not intended:
        return []
    # The template of a job is immutable.
    draft = Draft(workload.id, workload.content, must_replace=workload.id.kind == "Job")
    edit = draft.put((*workload.path, "spec", field), intended).edit()
    kind = "priority" if field == "priorityClassName" else "runtime-class"
    return [PossibleChange(f"Change {field} from {name} to {intended}", kind, [edit.as_data()])]


def _find_similar(name: str, names: Sequence[str]) -> str:
    """Return the only name that a longer name abbreviates, or that abbreviates it, word by word.

    >>> _find_similar("critical-production", ["critical-prod", "low"]), _find_similar("a", ["b"])
    ('critical-prod', '')
    """
    words = name.split("-")

    def is_similar(candidate: str) -> bool:
        pairs = list(zip(words, candidate.split("-"), strict=False))
        return len(words) == len(pairs) == candidate.count("-") + 1 and all(
            min(len(a), len(b)) > 2 and (a.startswith(b) or b.startswith(a)) for a, b in pairs
        )

    similar = [candidate for candidate in names if is_similar(candidate)]
    return similar[0] if len(similar) == 1 else ""


def list_priority_classes(session: Session) -> list[str]:
    """List the names of the priority classes."""
    return [*SYSTEM_CLASSES, *(target.name for target in session.objects.known("PriorityClass"))]


def list_runtime_classes(session: Session) -> list[str]:
    """List the names of the runtime classes."""
    return [item["metadata"]["name"] for item in session.objects.given.shaping if item["kind"] == "RuntimeClass"]


def _meet_pod_security(workload: NamedWorkload, level: str, violations: str) -> Iterator[PossibleChange]:
    """Change what the policy names in the template, or relax the policy of the namespace."""
    draft = Draft(workload.id, workload.content, must_replace=workload.id.kind == "Job")
    path, spec = (*workload.path, "spec"), (workload.spec.get("template") or {}).get("spec") or {}
    for field in HOST_FIELDS:
        if f"{field}=true" in violations and spec.get(field):
            draft.remove(*path, field)
    for kind in CONTAINERS[:2]:
        for index, _ in enumerate(spec.get(kind) or ()):
            context = (*path, kind, index, "securityContext")
            if "privileged=true" in violations:
                draft.put((*context, "privileged"), False)
            if "allowPrivilegeEscalation" in violations:
                draft.put((*context, "allowPrivilegeEscalation"), False)
            if "capabilities" in violations:
                draft.put((*context, "capabilities"), {"drop": ["ALL"]})
    if "runAsNonRoot" in violations:
        draft.put((*path, "securityContext", "runAsNonRoot"), True)
    if "seccompProfile" in violations:
        draft.put((*path, "securityContext", "seccompProfile"), {"type": "RuntimeDefault"})
    if draft.operations:
        text = f"Change the pod template as the {level} policy requires: {violations}"
        yield PossibleChange(text, "security", [draft.edit().as_data()])
    if not draft.operations or any(f"{field}=true" in violations for field in HOST_FIELDS):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "name": workload.id.namespace}
        patch = [{"op": "add", "path": "/metadata/labels", "value": {ENFORCE: "privileged"}}]
        text = f"Allow it in the namespace {workload.id.namespace}: set the label {ENFORCE}=privileged"
        yield PossibleChange(text, "security", [{"object": namespace, "apply": "patch", "patch": patch}])
