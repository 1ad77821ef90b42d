"""Explain workloads: how many of their pods fit, and why the next one does not."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec.structs import replace

from moorage.common.errors import ApiError, InputError
from moorage.insight.explain.explanation import PodExplanation, PossibleChange, WorkloadExplanation
from moorage.insight.explain.groups import (
    is_scheduled_with_group,
    list_active_pods,
    list_pending_members,
    view_group,
)
from moorage.insight.explain.pods import explain_member, explain_pod
from moorage.insight.explain.refusals import Refusals, find_replica_failure
from moorage.insight.explain.rejections import (
    change_class,
    create_runtime_class,
    list_priority_classes,
    list_runtime_classes,
    suggest_remedies,
)
from moorage.insight.explain.search import gate_owner
from moorage.insight.explain.subject import DEFAULT_SECONDS, Draft
from moorage.insight.whatif.edits import (
    CreateObject,
    DeleteObject,
    ObjectId,
    Operation,
    PatchObject,
    decode_edit,
    pointer,
)
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import (
    NamedWorkload,
    belongs_to_workload,
    check_pod_count,
    create_daemon_pod,
    create_gang,
    create_workload_pod,
    find_template_claims,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.patches import json_patch
from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.plugins.node_affinity import find_node_affinity

EXCLUSIVE: Final = "ReadWriteOncePod access mode already in-use"
SCALED: Final = ("Deployment", "ReplicaSet", "ReplicationController")
MAX_REPLACED: Final = 8
"""Number of old pods of a rollout to try."""


def explain_workload(
    session: Session, workload: NamedWorkload, *, seconds: float = DEFAULT_SECONDS
) -> WorkloadExplanation:
    """Place the pods of a workload one after the other, until one does not fit."""
    title = f"{workload.id.kind.lower()}/{workload.id.name}"
    if workload.id.kind == "PodGroup":
        return _explain_group(session, workload.id.key, title, seconds)
    own = [pod for pod in list_active_pods(session) if belongs_to_workload(pod, workload)]
    with session.branch():
        own += create_gang(session, workload, title) if not own else []
        gang = next((pod.group_key for pod in own if is_scheduled_with_group(session, pod)), None)
        if gang is not None:
            explanation = _explain_group(session, gang, title, seconds)
            if explanation.next is None:
                return explanation
            return replace(
                explanation, next=_edit_template(session, explanation.next, workload, {pod.key for pod in own})
            )
    placed_pods = [pod for pod in own if pod.node_name]
    pending_keys = [pod.key for pod in own if not pod.node_name]
    placed = {pod.key for pod in placed_pods}
    pod_count = max(workload.wanted, len(own))  # a rollout creates more pods
    check_pod_count(title, pod_count)
    fits = len(placed_pods)
    if (uncreated := _explain_uncreated(session, workload, own)) is not None:
        return uncreated
    if workload.id.kind == "DaemonSet":
        return _explain_daemons(session, workload, title, own, seconds)
    refusals = Refusals(session, workload.id.namespace)
    failure = find_replica_failure(workload.content, _list_replica_sets(session)) if len(own) < pod_count else ""
    with session.branch():
        while fits < pod_count:
            is_made = not pending_keys
            key = pending_keys.pop(0) if pending_keys else create_workload_pod(session, workload, fits)
            if is_made:
                target = ObjectId("Pod", *key.split("/"))
                content = session.objects.content(target)
                admitted, refusal = refusals.admit(content)
                if admitted != content:
                    session.apply(DeleteObject(target), CreateObject(admitted))
            if is_made and (refusal := refusal or ("" if refusals.covers(failure) else failure)):
                remedies = refusals.changes(content, workload, pod_count - fits, refusal)
                remedies += suggest_remedies(workload, refusal)
                return WorkloadExplanation(title, fits, pod_count, _make_refusal(session, key, refusal, remedies))
            if not _is_placed(session, key):
                # A deleted pod of the same workload would be recreated, and be pending itself.
                explained = explain_pod(session, key, seconds=seconds, spared=frozenset(placed))
                explained = (_edit_template if is_made else _edit_own_template)(session, explained, workload, {key})
                explained = _replace_first(session, explained, workload, placed_pods)
                explained = _limit_replicas(explained, workload, fits)
                return WorkloadExplanation(title, fits, pod_count, explained)
            placed.add(key)
            fits += 1
    return WorkloadExplanation(title, fits, pod_count, note=_describe_idleness(workload, len(own)))


def _explain_uncreated(session: Session, workload: NamedWorkload, own: Sequence[Pod]) -> WorkloadExplanation | None:
    """Explain a workload that creates no pods: it has ended, is suspended, or names a class that does not exist."""
    title, pod_count = f"{workload.id.kind.lower()}/{workload.id.name}", max(workload.wanted, len(own))
    fits = sum(1 for pod in own if pod.node_name)
    if ending := _describe_end(workload):
        return WorkloadExplanation(title, fits, fits, note=ending)
    if _is_suspended(workload):
        return WorkloadExplanation(title, fits, pod_count, _explain_suspended(session, workload))
    refused = _explain_unknown_class(session, workload) if len(own) < pod_count else None
    return None if refused is None else WorkloadExplanation(title, fits, pod_count, refused)


def _replace_first(
    session: Session, explained: PodExplanation, workload: NamedWorkload, running: Sequence[Pod]
) -> PodExplanation:
    """Suggest to delete an old pod first, if a rollout is blocked because it adds a pod."""
    if workload.id.kind != "Deployment" or not running or len(running) < workload.wanted:
        return explained
    nodes = []
    for pod in running[:MAX_REPLACED]:
        with session.branch():
            session.apply(DeleteObject(ObjectId("Pod", pod.namespace, pod.name)))
            nodes.append(session.place(explained.decision.pod, preempts=False).node)
    if not all(nodes):
        return explained
    draft = Draft(workload.id, workload.content)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    edit = draft.put(("spec", "strategy"), strategy).edit()
    text = "Set maxSurge to 0 and maxUnavailable to 1, so that the rollout deletes an old pod before it adds one"
    change = PossibleChange(text, "rollout", [edit.as_data()], nodes[0])
    return replace(explained, changes=(change, *explained.changes))


def _limit_replicas(explained: PodExplanation, workload: NamedWorkload, fits: int) -> PodExplanation:
    """Suggest as many replicas as can use a claim, if the first one uses it exclusively."""
    if fits == 0 or EXCLUSIVE not in explained.decision.message or workload.id.kind not in SCALED:
        return explained
    edit = Draft(workload.id, workload.content).put(("spec", "replicas"), fits).edit()
    reason = "one pod at a time can use its ReadWriteOncePod claim; a StatefulSet creates a claim for each replica"
    change = PossibleChange(f"Set replicas to {fits}: {reason}", "replicas", [edit.as_data()])
    return replace(explained, changes=(change, *explained.changes))


def _describe_end(workload: NamedWorkload) -> str:
    """Describe a job that has failed or is complete: it creates no more pods. Return an empty string for others."""
    conditions = (workload.content.get("status") or {}).get("conditions") or () if workload.id.kind == "Job" else ()
    for condition in conditions:
        if condition.get("status") == "True" and condition.get("type") in ("Failed", "FailureTarget"):
            reason = f"{condition.get('reason')}: {condition.get('message')}"
            return f"the job has failed ({reason}) and creates no more pods: delete it, and create it again"
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "SuccessCriteriaMet"):
            return "the job is complete and creates no more pods"
    return ""


def _describe_idleness(workload: NamedWorkload, pods: int) -> str:
    """Describe why a controller creates no pods although they fit. Return an empty string if it does."""
    if workload.spec.get("paused") is True and pods < workload.wanted:
        return f"the deployment is paused: resume it with `kubectl rollout resume deployment/{workload.id.name}`"
    if not workload.wanted:
        if workload.id.kind in ("Job", "CronJob"):
            return "it creates no pods: its parallelism is 0; raise it"
        command = f"`kubectl scale {workload.id.kind.lower()}/{workload.id.name} --replicas=1`"
        return f"it creates no pods: its replicas is 0; {command} creates one, a HorizontalPodAutoscaler does not"
    if workload.id.kind == "CronJob":
        return f"it creates pods only at its schedule ({workload.content['spec'].get('schedule')})"
    return ""


def _explain_daemons(
    session: Session, workload: NamedWorkload, title: str, own: Sequence[Pod], seconds: float
) -> WorkloadExplanation:
    """Place the missing pods of a daemon set, each on its node. Nodes with untolerated taints are the last ones."""
    nodes = session.scheduler.cache.nodes
    pending_by_node = {_find_daemon_node(pod): pod.key for pod in own if not pod.node_name}
    covered = {pod.node_name for pod in own if pod.node_name}
    selector = ((workload.spec.get("template") or {}).get("spec") or {}).get("nodeSelector") or {}
    matches = {info.name: sum(info.labels.get(key) == value for key, value in selector.items()) for info in nodes}
    # If no node has all labels of the selector, the nodes with the most of them are explained.
    eligible_nodes = [info for info in nodes if matches[info.name] == max(matches.values())]
    uncovered_nodes = [info for info in eligible_nodes if info.name not in covered]
    fits, failures = len(eligible_nodes) - len(uncovered_nodes), list[tuple[int, str, str]]()
    with session.branch():
        for number, info in enumerate(uncovered_nodes):
            key = pending_by_node.get(info.name) or create_daemon_pod(session, workload, number, info.name)
            if not _is_placed(session, key):
                closed = any(taint.repels_pods and not session.pod(key).tolerates(taint) for taint in info.taints)
                failures.append((2 * closed + (info.name not in pending_by_node), info.name, key))
            else:
                fits += 1
        if not failures:
            return WorkloadExplanation(title, fits, len(eligible_nodes))
        _, node, key = min(failures)
        explained = explain_pod(session, key, node=node, seconds=seconds)
        edit = _edit_own_template if node in pending_by_node else _edit_template
        explained = edit(session, explained, workload, {key})
        return WorkloadExplanation(title, fits, len(eligible_nodes), explained)


def _is_placed(session: Session, key: str) -> bool:
    """Place a pod and return whether it has a node. Pods with gates and of other schedulers get none."""
    if session.pod(key).scheduler_name not in session.scheduler.runners:
        return False
    mark = session.mark()
    is_placed = bool(session.place(key, preempts=False).node)
    if not is_placed:
        session.roll_back(mark)
    return is_placed


def _find_daemon_node(pod: Pod) -> str:
    """Return the node that the daemon set controller has chosen for a pod."""
    required = find_node_affinity(pod).required
    terms = required.node_selector_terms if required is not None else ()
    return next((name for term in terms for field in term.match_fields for name in field.values), "")


def _make_refusal(session: Session, key: str, message: str, changes: Sequence[PossibleChange]) -> PodExplanation:
    """Explain a pod that the API server does not create. With the changes it may have a node."""
    attempt = session.try_pod(key, preempts=False)
    if not attempt.node:
        message = f"{message}; without that, {attempt.decision.message}"
    decision = replace(attempt.decision, result=Result.UNSCHEDULABLE, node="", tied=(), nodes={}, message=message)
    located = tuple(replace(item, node=attempt.node) for item in changes)
    return PodExplanation(decision=decision, changes=located, is_refused=True)


def _explain_unknown_class(session: Session, workload: NamedWorkload) -> PodExplanation | None:
    """Explain a workload with a missing priority class or runtime class: the API server rejects its pods."""
    spec = (workload.spec.get("template") or {}).get("spec") or {}
    name, names = spec.get("priorityClassName"), list_priority_classes(session)
    if name and name not in names:
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        create, problem = CreateObject({**head, "value": 0}), f"no PriorityClass with name {name} was found"
        changes = change_class(workload, "priorityClassName", name, names)
        changes.append(PossibleChange(f"Create the priority class {name}", "priority", [create.as_data()]))
        with session.branch():
            session.apply(create)
            return _make_refusal(session, create_workload_pod(session, workload, 0), problem, changes)
    name, names = spec.get("runtimeClassName"), list_runtime_classes(session)
    # Files often omit the runtime classes.
    if name and names and name not in names:
        changes = change_class(workload, "runtimeClassName", name, names) or [create_runtime_class(name)]
        with session.branch():
            key, problem = create_workload_pod(session, workload, 0), f'RuntimeClass "{name}" not found'
            return _make_refusal(session, key, f"pod rejected: {problem}", changes)
    return None


def _is_suspended(workload: NamedWorkload) -> bool:
    specs = (workload.content.get("spec") or {}, workload.spec)
    return workload.id.kind in ("Job", "CronJob") and any(spec.get("suspend") is True for spec in specs)


def _explain_suspended(session: Session, workload: NamedWorkload) -> PodExplanation:
    """Explain a suspended job: it has no pods until it is resumed."""
    labels = (workload.content.get("metadata") or {}).get("labels") or {}
    owners = {gate_owner(name.rpartition("/")[0]) for name in labels} - {""}
    noun = "cron job" if workload.id.kind == "CronJob" else "job"
    message = f"the {noun} is suspended{f'; {min(owners)} resumes it' if owners else ''}"
    is_own = (workload.content.get("spec") or {}).get("suspend") is True
    with session.branch():
        key = create_workload_pod(session, workload, 0)
        path = ("spec", "suspend") if is_own else (*workload.path[:-1], "suspend")
        edit = Draft(workload.id, workload.content).put(path, False).edit()
        change = PossibleChange(f"Resume the {noun}: set suspend to false", "gate", [edit.as_data()])
        return _make_refusal(session, key, message, [] if owners else [change])


def _list_replica_sets(session: Session) -> Iterator[Mapping[str, Any]]:
    return (content for content in session.objects.contents() if content.get("kind") == "ReplicaSet")


def _edit_template(
    session: Session, explained: PodExplanation, workload: NamedWorkload, pods: AbstractSet[str]
) -> PodExplanation:
    """Replace changes of pods that do not exist yet, or are all equal, by changes of their template."""
    owner, is_job = workload.id.as_data(str(workload.content.get("apiVersion", ""))), workload.id.kind == "Job"
    claims = find_template_claims(session, pods)
    volumes = _find_volume_claims(session, workload, pods)

    def convert_change(change: PossibleChange) -> PossibleChange | None:
        edits, text = list[dict[str, Any]](), change.text
        for edit in change.edits:
            target = edit.get("object", {})
            if target.get("kind") == "Pod" and f"{target.get('namespace')}/{target.get('name')}" in pods:
                patch = _on_template(_list_template_operations(edit["patch"]), workload)
                if not patch:
                    continue
                template_edit = {"object": owner, "apply": "replace" if is_job else "patch", "patch": patch}
                # An edit of all pods of a group is one edit of the template.
                edits += [template_edit] if template_edit not in edits else []
            elif (claim := ObjectId(*(target.get(key, "") for key in ("kind", "namespace", "name")))) in claims:
                template = claims[claim]
                patch = [{**operation, "path": f"/spec{operation['path']}"} for operation in edit["patch"]]
                owner_id = {**target, "kind": template.kind, "name": template.name}
                edits.append({**edit, "object": owner_id, "patch": patch})
                text = text.replace(f"the claim {claim.name}", f"the claim template {template.name}")
            elif claim in volumes:
                if any(not operation["path"].startswith("/spec/") for operation in edit["patch"]):
                    return None  # a template has no state
                index, name = volumes[claim]
                path = f"/spec/volumeClaimTemplates/{index}"
                patch = [{**operation, "path": f"{path}{operation['path']}"} for operation in edit["patch"]]
                edits.append({"object": owner, "apply": "replace", "patch": patch})
                text = text.replace(f"the claim {claim.name}", f"the volume claim template {name}")
            elif target.get("kind") == "PodGroup" and is_job:
                operations = edit["patch"]
                patch = [{**operation, "path": f"/spec/scheduling{operation['path'][5:]}"} for operation in operations]
                edits.append({"object": owner, "apply": "replace", "patch": patch})
            elif not _is_owned(edit.get("create") or {}, pods):
                edits.append(edit)
        return replace(change, text=text, edits=edits)

    return replace(explained, changes=tuple(filter(None, map(convert_change, explained.changes))))


def _edit_own_template(
    session: Session, explained: PodExplanation, workload: NamedWorkload, pods: AbstractSet[str]
) -> PodExplanation:
    """Replace changes of an existing pod by changes of its template, if a pod from the new template has a node."""
    (key,) = pods
    target = ObjectId("Pod", *key.split("/"))
    owner = workload.id.as_data(str(workload.content.get("apiVersion", "")))
    strategy = ((workload.content.get("spec") or {}).get("updateStrategy") or {}).get("type")
    is_ordered = workload.id.kind == "StatefulSet" and workload.spec.get("podManagementPolicy") != "Parallel"
    # Otherwise, the controller replaces the pod.
    must_delete = is_ordered or strategy == "OnDelete" or workload.id.kind in ("ReplicaSet", "ReplicationController")
    suffix = key.rpartition("-")[2]
    number = int(suffix) if workload.id.kind == "StatefulSet" and suffix.isdecimal() else 0

    def convert_change(change: PossibleChange) -> PossibleChange:
        edits = [decode_edit(edit) for edit in change.edits]
        own = [edit for edit in edits if isinstance(edit, PatchObject) and edit.target == target]
        operations = _list_template_operations([operation for edit in own for operation in edit.operations])
        if not operations:
            return change
        other_edits = [
            edit
            for edit in edits
            if edit not in own and not (isinstance(edit, CreateObject) and _is_owned(edit.content, pods))
        ]
        patch = _on_template(operations, workload)
        with session.branch():
            try:
                new_workload = NamedWorkload(workload.id, json_patch(workload.content, patch))
                node = _find_daemon_node(session.pod(key)) if workload.id.kind == "DaemonSet" else ""
                session.apply(*other_edits, DeleteObject(target))
                edited_pod = (
                    create_daemon_pod(session, new_workload, number, node)
                    if node
                    else create_workload_pod(session, new_workload, number)
                )
            except (ApiError, InputError):
                return change
            attempt = session.place(edited_pod, preempts=bool(change.victims))
            if not patch or not (attempt.node or attempt.nominated_node):
                return change
        template = {"object": owner, "apply": "replace" if workload.id.kind == "Job" else "patch", "patch": patch}
        ending = [DeleteObject(target).as_data()] if must_delete else []
        return replace(change, edits=[*(edit.as_data() for edit in other_edits), template, *ending])

    return replace(explained, changes=tuple(map(convert_change, explained.changes)))


def _list_template_operations(operations: Sequence[Operation]) -> list[Operation]:
    """List the operations that a template can have: it has no status."""
    return [operation for operation in operations if operation["path"].split("/")[1] != "status"]


def _is_owned(content: Mapping[str, Any], pods: AbstractSet[str]) -> bool:
    """Return whether one of the pods owns an object, such as a claim that the controller creates for each pod."""
    metadata = content.get("metadata") or {}
    owners = metadata.get("ownerReferences") or ()
    return any(item["kind"] == "Pod" and f"{metadata.get('namespace')}/{item['name']}" in pods for item in owners)


def _find_volume_claims(
    session: Session, workload: NamedWorkload, pods: AbstractSet[str]
) -> dict[ObjectId, tuple[int, str]]:
    """Find the claims of volumes that a stateful set would create for pods: the number and name of the template."""
    existing = {obj.key for obj in session.objects.given.objects if isinstance(obj, PersistentVolumeClaim)}
    names = [str(item["metadata"]["name"]) for item in workload.spec.get("volumeClaimTemplates") or ()]
    claims = {
        ObjectId("PersistentVolumeClaim", workload.id.namespace, f"{name}-{key.partition('/')[2]}"): (index, name)
        for index, name in enumerate(names)
        for key in pods
    }
    return {claim: volume for claim, volume in claims.items() if claim.key not in existing}


def _on_template(operations: Sequence[Mapping[str, Any]], workload: NamedWorkload) -> list[Operation]:
    """Apply a patch of a pod to its template. The pod may have more fields: limit ranges set default requests."""
    draft = Draft(workload.id, workload.content)
    for operation in operations:
        path = f"{pointer(*workload.path)}{operation['path']}"
        try:
            draft.do({**operation, "path": path})
        except InputError:
            if "value" in operation:
                names = [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
                steps = [int(step) if step.isdecimal() else step for step in names]
                if steps[-1] == "-":
                    draft.append(steps[:-1], [operation["value"]])
                else:
                    draft.put(steps, operation["value"])
    return draft.operations


def _explain_group(session: Session, key: str, title: str, seconds: float) -> WorkloadExplanation:
    """Try a group as a unit. Without group scheduling, try its members one by one."""
    groups = session.scheduler.cache.groups
    if groups is None:
        members = [pod for pod in list_active_pods(session) if pod.group_key == key]
        fits = sum(1 for pod in members if pod.node_name)
        with session.branch():
            for pod in members:
                if not pod.node_name:
                    if not session.place(pod.key, preempts=False).node:
                        explained = explain_pod(session, pod.key, seconds=seconds)
                        return WorkloadExplanation(title, fits, len(members), explained)
                    fits += 1
        return WorkloadExplanation(title, fits, len(members))
    group_members = groups.members(key)
    if group_members is None or not group_members.known_count:
        return WorkloadExplanation(title, 0, 0)
    with session.branch():
        view = view_group(session, key)
        lacks_members = not view.is_met and view.members < (view.needed or 0)
        pending_keys = [pod.key for pod in list_pending_members(session, key)] if lacks_members else []
        blocked = view.blocked or next(iter(pending_keys), "")
        stuck = session.pod(blocked) if blocked else None
        member = None if stuck is None else explain_member(session, stuck, view, seconds)
    return WorkloadExplanation(title, view.most, max(view.members, view.needed or 0), member, view.facts())
