"""YAML of pages: configurations are read like by the scheduler, manifests are applied to a cluster in this process."""

from collections.abc import Iterable
from typing import Any, Final

import yaml

from moorage.kube.api.kinds import KINDS
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster, in_virtual_time

HEAD: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
"""Namespaces and objects that pages need."""
OF_PROFILE: Final = {"plugins", "pluginConfig", "schedulerName", "percentageOfNodesToScore"}


def check_yaml(text: str, plugins: Iterable[type[Plugin]]) -> None:
    """Validate every document of a block."""
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict):
            check_document(document, plugins)


def check_document(document: dict[str, Any], plugins: Iterable[type[Plugin]]) -> None:
    """Check a complete object, or a part of a configuration."""
    if document.get("kind") == HEAD["kind"]:
        load_policy(collect_plugins(plugins), yaml.safe_dump(document))
    elif "apiVersion" not in document and document.keys() <= OF_PROFILE:
        load_policy(collect_plugins(plugins), yaml.safe_dump({**HEAD, "profiles": [document]}))
    elif "apiVersion" not in document and "profiles" in document:
        load_policy(collect_plugins(plugins), yaml.safe_dump({**HEAD, **document}))
    elif is_known(document):
        apply(document)


def is_known(document: dict[str, Any]) -> bool:
    """Return whether the embedded API server serves the kind of an object by default."""
    expected = document.get("kind"), document.get("apiVersion")
    if expected == ("Pod", "v1") and "containers" not in document.get("spec", {}):
        return False  # a page may show the labels of a pod without its containers
    return any((kind.name, kind.api_version) == expected for kind in KINDS)


def apply(document: dict[str, Any]) -> None:
    """Apply an object to an empty cluster."""

    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, scheduler=False, feature_gates=GATES) as cluster:
            await cluster.apply(document)

    story()
