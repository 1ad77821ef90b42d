"""The official Python client on a complete cluster: it rejects objects without required fields."""

import asyncio
from pathlib import Path
from typing import Any, Final

import kubernetes
import yaml
from kubernetes.client import ApiException

from moorage.testing import Cluster

MANIFESTS: Final = Path(__file__).with_name("every_kind.yaml")
MADE_BY_OTHERS: Final = {"Pod", "Event", "Namespace", "ServiceAccount", "ControllerRevision"}


def test_client_reads_all_kinds(tmp_path: Path) -> None:
    read = asyncio.run(story(tmp_path / "kubeconfig"))
    output = {document["kind"] for document in yaml.safe_load_all(MANIFESTS.read_text())}
    assert output | MADE_BY_OTHERS <= read


async def story(config: Path) -> set[str]:
    async with Cluster(nodes=2) as cluster:
        config.write_text(yaml.safe_dump(cluster.kubeconfig))
        await cluster.apply(MANIFESTS)
        apps = ("app=deployment", "app=daemonset", "app=statefulset")
        await cluster.wait_for(lambda: all(map(cluster.running, apps)))
        return await asyncio.to_thread(read_all, config)


def read_all(config: Path) -> set[str]:
    """List all resources that the client supports, and return the kinds with objects."""
    # Events of controllers have no eventTime, as upstream. The client rejects them in this group and reads them as v1.
    omitted = {"CustomObjectsApi", "EventsV1Api"}
    read = set()
    with kubernetes.config.new_client_from_config(str(config)) as client:  # type: ignore[no-untyped-call]
        for name in dir(kubernetes.client):
            if name.endswith("Api") and name not in omitted:
                read |= read_group(getattr(kubernetes.client, name)(client))
    return read


def read_group(api: Any) -> set[str]:
    endings = ("_with_http_info", "_without_preload_content")
    listing = [name for name in dir(api) if name.startswith("list_") and not name.endswith(endings)]
    read = set()
    for name in (name for name in listing if "namespaced" not in name):
        try:
            obj = getattr(api, name)()
        except ApiException as error:
            if error.status != 404:  # a version or a kind that is not served
                raise
            continue
        read |= {item.kind or type(item).__name__[2:] for item in obj.items}
    return {kind.removeprefix("reV1") for kind in read}
