"""Read the scheduling-relevant objects of a live cluster: lists only, each kind at one resource version.

Objects are decoded into our structs, which contain only fields that affect scheduling. Env, commands, secrets and
annotations are omitted by default.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import msgspec

from moorage.cluster import TOPOLOGY
from moorage.common.errors import ApiError, Forbidden, Gone, InputError, NotFound
from moorage.kube.api.codec import UNREADABLE, convert, decode
from moorage.kube.api.kinds import BY_NAME, Kind
from moorage.kube.api.kinds import KINDS as ALL_KINDS
from moorage.kube.api.pod import PodSpec
from moorage.kube.api.storage import DEFAULT_CLASS, StorageClass
from moorage.kube.client.rest import ApiClient

PAGE_SIZE: Final = 2500
MAX_AT_ONCE: Final = 4
RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
KINDS: Final = tuple(
    BY_NAME[name]
    for name in (
        *("Namespace", "PriorityClass", "Node", "Pod", "PodDisruptionBudget", "Service", "ReplicationController"),
        *("ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "Job", "PersistentVolume", "PersistentVolumeClaim"),
        *("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "DeviceClass"),
        *("ResourceClaim", "ResourceSlice", "DeviceTaintRule", "PodGroup", "CompositePodGroup", "Workload"),
    )
)
"""The kinds to read. Kinds that the server does not have are skipped."""
OPTIONAL_NAMES: Final = ("LimitRange", "ResourceQuota", "RuntimeClass", "CronJob", "ResourceClaimTemplate")
OPTIONAL: Final = tuple(kind for kind in ALL_KINDS if kind.name in OPTIONAL_NAMES)
"""Kinds that change, limit or create pods and claims. They are read if permitted."""
WITHOUT_FAILURES: Final = ("StatefulSet", "Job", "DaemonSet")
"""Workloads that report pods that cannot be created only in events, not in their status."""
MAX_EVENTS: Final = 1000
CONFIG_NAMESPACE: Final = "kube-system"
"""Only this namespace is trusted: users of other namespaces could otherwise change the results."""
CONFIG_LABEL: Final = "app.kubernetes.io/name=moorage"
SCHEDULER_LABELS: Final = ("component=kube-scheduler", CONFIG_LABEL)
"""Labels of the pods of kube-scheduler (kubeadm) and of Moorage."""
SCHEDULER_PORT: Final = 10259
CONFIGZ_SECONDS: Final = 3.0
CONFIG_KEY: Final = "config.yaml"
"""The ConfigMap of the manifests and of the chart."""
NEEDED: Final = ("Node", "Pod")
KEPT_ANNOTATIONS: Final = frozenset(
    (
        "kubernetes.io/config.mirror",
        "moorage.io/gang",
        "moorage.io/gang-size",
        "moorage.io/price-per-hour",
        "moorage.io/run-for",
        "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority",
        "preemption-toleration.scheduling.x-k8s.io/toleration-seconds",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/migrated-to",
        "storage.alpha.kubernetes.io/migrated-plugins",
        DEFAULT_CLASS,
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-class",
    )
)
"""Annotations that affect scheduling, plans or forecasts."""
KEPT_PARAMETERS: Final = frozenset((TOPOLOGY,))
"""Parameters of a storage class that affect scheduling. Others may contain accounts and keys."""
Content: TypeAlias = dict[str, Any]
ShowReading: TypeAlias = Callable[[str, int, int], None]
"""Called with a kind, how many of its objects have been read, and how many there seem to be."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class ReadCluster(msgspec.Struct):
    """The objects of a cluster, and the resource version of each kind."""

    contents: list[Content]
    versions: dict[str, str]
    skipped: tuple[str, ...] = ()
    """Optional kinds that may not be listed."""
    config: str = ""
    """The configuration of the scheduler that runs in the cluster, from its ConfigMap."""
    config_source: str = ""


async def read_cluster(
    client: ApiClient,
    *,
    with_annotations: bool = False,
    all_fields: bool = False,
    needs_all: bool = True,
    progress: ShowReading = lambda _kind, _done, _total: None,
) -> ReadCluster:
    """List all kinds. Raise InputError with all missing permissions.

    Without ``needs_all``, only nodes and pods must be readable. Other kinds are skipped if listing them is forbidden.
    """
    turns = asyncio.Semaphore(MAX_AT_ONCE)

    async def read(kind: Kind) -> tuple[list[Content], str] | ApiError:
        async with turns:
            try:
                return await _read_kind(client, kind, with_annotations, all_fields, progress)
            except NotFound:
                return [], ""
            except (Forbidden, Gone) as error:
                may_lack = isinstance(error, Forbidden) and not needs_all and kind.name not in NEEDED
                return ([], "") if may_lack else error

    answers = await asyncio.gather(*(read(kind) for kind in KINDS))
    optional = list(zip(OPTIONAL, await asyncio.gather(*(read(kind) for kind in OPTIONAL)), strict=True))
    forbidden = [kind for kind, answer in zip(KINDS, answers, strict=True) if isinstance(answer, Forbidden)]
    if forbidden:
        names = ", ".join(kind.full_name for kind in forbidden)
        hint = "; ".join(
            f'allow verb "list" on resource "{kind.plural}" of apiGroup "{kind.group}" in all namespaces'
            for kind in forbidden
        )
        raise InputError(client.connection.source, f"no permission to list {names}", hint=hint)
    contents: list[Content] = []
    versions: dict[str, str] = {}
    for kind, answer in zip(KINDS, answers, strict=True):
        if isinstance(answer, ApiError):
            raise InputError(kind.full_name, f"the list changed while it was read: {answer}", hint="retry")
        contents += answer[0]
        if answer[1]:
            versions[kind.full_name] = answer[1]
    contents += [item for _, answer in optional if not isinstance(answer, ApiError) for item in answer[0]]
    skipped_kinds = tuple(kind.full_name for kind, answer in optional if isinstance(answer, ApiError))
    await _note_failed_creations(client, contents)
    return ReadCluster(contents, versions, skipped_kinds, *await _read_config(client))


async def _note_failed_creations(client: ApiClient, contents: Sequence[Content]) -> None:
    """Add a ReplicaFailure condition to StatefulSets, Jobs and DaemonSets with a failed creation in the last event.

    Upstream sets this condition only on ReplicaSets and their Deployments. Events are read if permitted.
    """
    latest: dict[tuple[str, str, str], tuple[str, bool, str]] = {}
    try:
        for reason in ("FailedCreate", "SuccessfulCreate"):
            query = urlencode({"fieldSelector": f"reason={reason}", "limit": str(MAX_EVENTS)})
            page = msgspec.json.decode(await client.request("GET", f"/api/v1/events?{query}"))
            for item in page.get("items") or ():
                about = item.get("involvedObject") or {}
                key = str(about.get("kind")), str(about.get("namespace")), str(about.get("name"))
                metadata = item.get("metadata") or {}
                moment = item.get("lastTimestamp") or item.get("eventTime") or metadata.get("creationTimestamp") or ""
                has_failed = reason == "FailedCreate"
                latest[key] = max(latest.get(key, ("", False, "")), (str(moment), has_failed, str(item.get("message"))))
    except ApiError:
        return
    for content in contents:
        metadata = content["metadata"]
        key = content["kind"], metadata.get("namespace", ""), metadata["name"]
        moment, has_failed, message = latest.get(key, ("", False, ""))
        if content["kind"] in WITHOUT_FAILURES and has_failed:
            condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
            status = content.setdefault("status", {})
            status["conditions"] = [*(status.get("conditions") or ()), {**condition, "lastTransitionTime": moment}]


async def _read_config(client: ApiClient) -> tuple[str, str]:
    """Return the configuration of the running scheduler and its source; without one, an empty text and the reason."""
    path = f"/api/v1/namespaces/{CONFIG_NAMESPACE}/configmaps?{urlencode({'labelSelector': CONFIG_LABEL})}"
    try:
        items = msgspec.json.decode(await client.request("GET", path)).get("items") or ()
    except ApiError as error:
        return "", f"the ConfigMaps of {CONFIG_NAMESPACE} cannot be read ({error})"
    for item in items:
        if text := (item.get("data") or {}).get(CONFIG_KEY):
            return str(text), f"the ConfigMap {CONFIG_NAMESPACE}/{item['metadata'].get('name')}"
    for label in SCHEDULER_LABELS:
        if (answer := await _read_configz(client, label)) is not None:
            return answer
    return "", f"found no scheduler configuration in {CONFIG_NAMESPACE}"


async def _read_configz(client: ApiClient, label: str) -> tuple[str, str] | None:
    """Read the configuration of a scheduler from its debug page, if the server may connect to its pod."""
    pods = f"/api/v1/namespaces/{CONFIG_NAMESPACE}/pods"
    try:
        async with asyncio.timeout(CONFIGZ_SECONDS):
            items = msgspec.json.decode(await client.request("GET", f"{pods}?{urlencode({'labelSelector': label})}"))
            for item in (items.get("items") or ())[:1]:
                name = item["metadata"]["name"]
                body = await client.request("GET", f"{pods}/https:{name}:{SCHEDULER_PORT}/proxy/configz")
                config = msgspec.json.encode(msgspec.json.decode(body)["componentconfig"]).decode()
                return config, f"/configz of the pod {CONFIG_NAMESPACE}/{name}"
    except (ApiError, TimeoutError, KeyError, TypeError, msgspec.DecodeError):
        return None
    return None


async def _read_kind(
    client: ApiClient, kind: Kind, with_annotations: bool, all_fields: bool, progress: ShowReading
) -> tuple[list[Content], str]:
    query = {"limit": str(PAGE_SIZE)}
    if kind.name == "Pod":
        query["fieldSelector"] = RUNNING
    contents: list[Content] = []
    version = ""
    # Objects are written in the version that this program decodes, regardless of the version that the server serves.
    path = (await client.discover(kind)).path()
    while True:
        body = await client.request("GET", f"{path}?{urlencode(query)}")
        try:
            page = msgspec.json.decode(body, type=_Page)
        except UNREADABLE as error:
            raise InputError(kind.full_name, f"the server returned an invalid list: {error}") from error
        contents += [_extract(kind, item, with_annotations, all_fields) for item in page.items or ()]
        version = version or page.metadata.resource_version
        progress(kind.full_name, len(contents), len(contents) + (page.metadata.remaining_item_count or 0))
        if not page.metadata.continue_:
            return contents, version
        # The token makes all pages show the same resource version.
        query["continue"] = page.metadata.continue_


def _extract(kind: Kind, item: msgspec.Raw, with_annotations: bool, all_fields: bool) -> Content:
    if all_fields:
        content = msgspec.json.decode(item)
        content.get("metadata", {}).pop("managedFields", None)
        return {**content, "apiVersion": kind.api_version, "kind": kind.name}
    if not kind.has_struct:
        content = {"apiVersion": kind.api_version, "kind": kind.name, **msgspec.json.decode(item)}
        fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        metadata = content["metadata"]
        return {**content, "metadata": {name: metadata[name] for name in fields if name in metadata}}
    # Through JSON, because patch operations need lists, not tuples.
    data = msgspec.json.decode(msgspec.json.encode(decode(kind.type, bytes(item))))
    content = {"apiVersion": kind.api_version, "kind": kind.name, **data}
    _drop_annotations(content, with_annotations)
    spec = content.get("spec") or {}
    job = spec.get("jobTemplate") or {}
    if isinstance(template := spec.get("template") or (job.get("spec") or {}).get("template"), dict):
        # Fields of a pod that do not affect scheduling do not matter in a template either.
        original = template.get("spec") or {}
        template["spec"] = msgspec.json.decode(msgspec.json.encode(convert(PodSpec, original)))
        _keep_mounts(template["spec"], original)
    if kind.name == "Pod" and b'"activeDeadlineSeconds"' in bytes(item):
        # Forecasts use the deadline as the longest duration.
        spec["activeDeadlineSeconds"] = msgspec.json.decode(item)["spec"].get("activeDeadlineSeconds")
    if kind.name == "Pod" and not spec.get("nodeName") and spec.get("volumes"):
        _keep_mounts(spec, msgspec.json.decode(item)["spec"])
    parts = (template, job, spec if kind.name == "ResourceClaimTemplate" else None)
    for part in (*parts, *(spec.get("volumeClaimTemplates") or ())):
        if isinstance(part, dict):
            _drop_annotations(part, with_annotations)
    if kind.type is StorageClass and "parameters" in content:
        content["parameters"] = {key: text for key, text in content["parameters"].items() if key in KEPT_PARAMETERS}
    return content


def _keep_mounts(spec: Content, original: Content) -> None:
    """Keep the names of mounted volumes: a change that removes a volume must remove its mounts."""
    for kind in ("containers", "initContainers"):
        for container, original_container in zip(spec.get(kind) or (), original.get(kind) or (), strict=False):
            for field, path in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
                if original_container.get(field):
                    container[field] = [
                        {"name": item.get("name"), path: item.get(path)} for item in original_container[field]
                    ]


def _drop_annotations(content: Content, with_annotations: bool) -> None:
    metadata = content.get("metadata") or {}
    if not with_annotations and "annotations" in metadata:
        annotations = {key: text for key, text in metadata.pop("annotations").items() if key in KEPT_ANNOTATIONS}
        if annotations:
            metadata["annotations"] = annotations
