"""Objects that are created and deleted while pods are placed."""

import asyncio
from itertools import count

import msgspec

from benchmarks.live.workload import Group, Workload
from moorage.common.errors import NotFound
from moorage.kube.client.rest import ApiClient


async def churning(client: ApiClient, workload: Workload) -> None:
    """Create and delete the churning objects of the workload until cancelled."""
    await asyncio.gather(*(_churn(client, workload, group) for group in workload.churn))


async def _churn(client: ApiClient, workload: Workload, group: Group) -> None:
    names: list[str] = []
    for number in count():
        body = group.template.made(i=number, nodes=workload.nodes, pods=workload.pods)
        await client.request("POST", group.path, body)
        names.append(msgspec.json.decode(body)["metadata"]["name"])
        if len(names) > group.keep:
            try:
                await client.request("DELETE", f"{group.path}/{names.pop(0)}")
            except NotFound:
                continue
        await asyncio.sleep(group.every)
