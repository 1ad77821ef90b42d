"""Load a cluster from files, a snapshot or a live API server, for all commands and for sessions."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Final, TextIO

import structlog
import yaml
from msgspec import Struct

from moorage.common.errors import ApiError, InputError, Unreachable
from moorage.common.virtual_time import call_outside_loop
from moorage.insight.snapshots.snapshot_file import OLD_SECONDS, read_snapshot
from moorage.insight.whatif.edits import Content
from moorage.insight.whatif.session import Session
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document, describe_unknown_fields, read_files, to_documents
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

if TYPE_CHECKING:
    from moorage.insight.snapshots.cluster_reader import ReadCluster, ShowReading

DEFAULT_NAME: Final = "default-scheduler"
log = structlog.get_logger(__name__)


class ClusterSource(Struct, frozen=True):
    """The source of a cluster: files, a snapshot, or a live cluster."""

    files: Sequence[str] = ()
    snapshot: str = ""
    kubeconfig: str = ""
    context: str = ""
    is_live: bool = False
    """Whether the command reads no files and no snapshots."""

    def check(self) -> None:
        """Raise InputError if there are two sources."""
        if self.files and self.snapshot:
            raise InputError("--snapshot", "cannot be combined with -f", hint="omit one of them")
        if (self.files or self.snapshot) and (self.kubeconfig or self.context):
            problem = "cannot be combined with -f or --snapshot"
            raise InputError("--kubeconfig", problem, hint="omit -f and --snapshot")


class LoadedCluster(Struct, frozen=True):
    """The objects of a cluster. ``note`` is shown to the user."""

    documents: list[Document]
    note: str = ""
    honors_nominations: bool = True
    namespace: str = "default"
    config: str = ""
    """The configuration of the scheduler that runs in a live cluster, if it is known."""
    config_source: str = ""
    """The source of the configuration of a live cluster, or the assumed configuration."""
    taken_at: float | None = None
    """When the state was read, in seconds since 1970, or ``None`` for files."""

    def session(self, policy: Policy) -> Session:
        """Open a session on it."""
        return Session(self.documents, policy, honors_nominations=self.honors_nominations)


def find_implied_gates(documents: Iterable[Document]) -> list[str]:
    """Return the feature gates that must be enabled in a cluster with these objects."""
    gates: dict[str, None] = {}
    for document in documents:
        spec = document.content.get("spec") or {}
        scheduling = spec if document.kind == "PodGroup" else spec.get("scheduling") if document.kind == "Job" else None
        if scheduling:
            gates["GenericWorkload"] = None
        if document.kind == "CompositePodGroup" or ((scheduling or {}).get("schedulingConstraints") or {}).get(
            "topology"
        ):
            gates |= dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling"))
        if document.kind == "CompositePodGroup":
            gates["CompositePodGroup"] = None
    return list(gates)


def _no_progress(_kind: str, _done: int, _total: int) -> None:
    """Show nothing."""


def load_cluster(
    source: ClusterSource, *, stdin: TextIO | None = None, progress: "ShowReading" = _no_progress
) -> LoadedCluster:
    """Read the cluster. Raise InputError if the source is invalid."""
    source.check()
    if source.files:
        documents = list(read_files(source.files, stdin=stdin))
        return LoadedCluster(documents, describe_unknown_fields(documents), honors_nominations=False)
    if source.snapshot:
        contents, facts = read_snapshot(source.snapshot)
        age = facts.age(time())
        is_old = time() - facts.taken_at > OLD_SECONDS
        note = f"the snapshot is {age} old; the cluster may have changed" if is_old else ""
        documents = list(to_documents(contents, source=source.snapshot))
        return LoadedCluster(documents, note, taken_at=facts.taken_at)
    read, namespace, server = read_server(source, progress=progress)
    note = f"no permission to list {', '.join(read.skipped)}; they are ignored" if read.skipped else ""
    assumed = f"using the scheduler's configuration in {read.config_source}"
    if not read.config:
        assumed = f"{read.config_source}; using kube-scheduler's defaults"
    documents = list(to_documents(read.contents, source=server))
    config = complete_config(read.config)
    return LoadedCluster(documents, note, namespace=namespace, config=config, config_source=assumed, taken_at=time())


def complete_config(config: str) -> str:
    """Add the profile of kube-scheduler to a configuration without it: it schedules the other pods of the cluster.

    Extenders are removed: a command that only reads must not send pods to URLs of a ConfigMap. An invalid
    configuration is returned unchanged and reported when it is loaded.

    >>> "default-scheduler" in complete_config("{profiles: [{schedulerName: moorage}]}")
    True
    >>> complete_config("{extenders: [{urlPrefix: 'http://127.0.0.1/'}], profiles: [{}]}")
    'profiles:\\n- {}\\n'
    >>> complete_config("profiles: [text]")
    'profiles: [text]'
    """
    try:
        data = yaml.safe_load(config)
    except yaml.YAMLError:
        return config
    if not isinstance(data, dict):
        return config
    profiles = data.get("profiles") or [{}]
    if not isinstance(profiles, list) or not all(isinstance(profile, dict) for profile in profiles):
        return config
    data.pop("extenders", None)
    if all(profile.get("schedulerName", DEFAULT_NAME) != DEFAULT_NAME for profile in profiles):
        data["profiles"] = [*profiles, {"schedulerName": DEFAULT_NAME}]
    return yaml.safe_dump(data, sort_keys=False)


def read_server(
    source: ClusterSource,
    *,
    with_annotations: bool = False,
    all_fields: bool = False,
    progress: "ShowReading" = _no_progress,
) -> tuple["ReadCluster", str, str]:
    """Read a live cluster. Return it, the namespace of the context, and the server."""
    # Commands that read files do not import the reader.
    from moorage.insight.snapshots.cluster_reader import read_cluster

    alternatives = "run in a pod" if source.is_live else "pass -f FILE or --snapshot FILE"
    connection = load_connection(source.kubeconfig, context=source.context, alternatives=alternatives)

    async def read() -> "ReadCluster":
        async with ApiClient(connection) as client:
            return await read_cluster(
                client, with_annotations=with_annotations, all_fields=all_fields, progress=progress
            )

    try:
        return call_outside_loop(lambda: asyncio.run(read())), connection.namespace, connection.server
    except ApiError as error:
        hint = "check the kubeconfig, and that the server is running" if isinstance(error, Unreachable) else ""
        raise InputError(connection.source, str(error) or type(error).__name__, hint=hint) from error


def load_session_policy(config: str | Path, plugins: Iterable[type[Plugin] | str], feature_gates: str) -> Policy:
    """Return the policy of a session. ``config`` is a file, or its text if it has several lines."""
    extra = Registry()
    for plugin in plugins:
        if isinstance(plugin, str):
            extra.register_path(plugin)
        else:
            extra.register(plugin)
    is_file = isinstance(config, Path) or (config and "\n" not in config)
    features = FeatureGates.parse(feature_gates)
    registry = collect_plugins(extra.values())
    return load_policy(registry, Path(config) if is_file else config, features=features, enabled=extra.values())


def load_session_cluster(
    cluster: Sequence[str | Path | Content], snapshot: str, kubeconfig: str, context: str
) -> LoadedCluster:
    """Load files, objects, a snapshot, or else the live cluster. Notes on it are logged."""
    files = [str(Path(item).expanduser()) for item in cluster if isinstance(item, str | Path)]
    objects = [*to_documents([item for item in cluster if not isinstance(item, str | Path)], source="the objects")]
    if objects and not (files or snapshot or kubeconfig or context):
        return LoadedCluster(objects, honors_nominations=False)
    kubeconfig_file = str(Path(kubeconfig).expanduser()) if kubeconfig else ""
    loaded_cluster = load_cluster(ClusterSource(files, snapshot, kubeconfig_file, context))
    if loaded_cluster.note:
        log.warning("cluster loaded", note=loaded_cluster.note)
    return LoadedCluster(
        [*loaded_cluster.documents, *objects],
        loaded_cluster.note,
        loaded_cluster.honors_nominations,
        loaded_cluster.namespace,
    )
