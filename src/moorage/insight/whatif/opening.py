"""From what a script gives to what a session needs: a policy, and a cluster from wherever it is."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from moorage.insight.whatif.edits import Content
from moorage.insight.whatif.sources import ClusterSource, LoadedCluster, load_cluster
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import documents_of
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

log = structlog.get_logger(__name__)


def policy_of(config: str | Path, plugins: Iterable[type[Plugin] | str], feature_gates: str) -> Policy:
    """Return how to schedule; a configuration is a file, or its text if it has several lines."""
    named = Registry()
    for plugin in plugins:
        if isinstance(plugin, str):
            named.register_path(plugin)
        else:
            named.register(plugin)
    is_file = isinstance(config, Path) or (config and "\n" not in config)
    features = FeatureGates.parse(feature_gates)
    registry = collect_plugins(named.values())
    return load_policy(registry, Path(config) if is_file else config, features=features, enabled=named.values())


def read_cluster_of(
    given: Sequence[str | Path | Content], snapshot: str, kubeconfig: str, context: str
) -> LoadedCluster:
    """Read files, objects, a snapshot, or without any of them a live cluster; what should be known of it is logged."""
    files = [str(Path(item).expanduser()) for item in given if isinstance(item, str | Path)]
    objects = [*documents_of([item for item in given if not isinstance(item, str | Path)], source="the objects given")]
    if objects and not (files or snapshot or kubeconfig or context):
        return LoadedCluster(objects, honours_nominations=False)
    expanded = str(Path(kubeconfig).expanduser()) if kubeconfig else ""
    loaded = load_cluster(ClusterSource(files, snapshot, expanded, context))
    if loaded.note:
        log.warning("the cluster was read", note=loaded.note)
    return LoadedCluster([*loaded.documents, *objects], loaded.note, loaded.honours_nominations, loaded.namespace)
