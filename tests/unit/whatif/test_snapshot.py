"""Snapshots: what is read of a cluster, what stays behind, what is renamed, and what is no snapshot."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.generator import generate
from tests.unit.why.clusters import node, pod, session

from moorage.box.apiserver.server import ApiServer
from moorage.client.credentials import FixedCredentials
from moorage.client.kubeconfig import Connection
from moorage.client.rest import ApiClient
from moorage.errors import Forbidden, InputError
from moorage.simulator.documents import documents_of
from moorage.simulator.loading import cluster_of
from moorage.simulator.one_pass import OnePass
from moorage.whatif.anonymizing import Anonymizer
from moorage.whatif.reading import ReadCluster, read_cluster
from moorage.whatif.snapshot import SnapshotFacts, read_snapshot, write_snapshot

SECRET = "do-not-tell"


def read(*things: dict[str, Any], **options: bool) -> ReadCluster:
    async def go() -> ReadCluster:
        async with ApiServer(plain=True) as server:
            credentials = FixedCredentials(f"Bearer {server.token}")
            async with ApiClient(Connection(server.plain_url, "here", credentials=credentials)) as client:
                import msgspec

                for thing in things:
                    kind = f"{thing['kind'].lower()}s"
                    where = f"/api/v1/{kind}" if kind == "nodes" else f"/api/v1/namespaces/default/{kind}"
                    await client.request("POST", where, msgspec.json.encode(thing))
                return await read_cluster(client, **options)

    return asyncio.run(go())


def telling_pod() -> dict[str, Any]:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"note": SECRET, "kubernetes.io/config.mirror": "x"}
    waits["spec"]["containers"][0] |= {"env": [{"name": "PASSWORD", "value": SECRET}], "command": [SECRET]}
    return waits


def test_secrets_stay_behind_unless_asked_for() -> None:
    assert SECRET not in str(read(node("n1"), telling_pod()).contents)
    assert SECRET in str(read(node("n1"), telling_pod(), with_annotations=True).contents)
    whole = str(read(node("n1"), telling_pod(), whole=True).contents)
    assert whole.count(SECRET) == 3


def test_what_was_read_can_be_explained_and_patched(tmp_path: Path) -> None:
    found = read(node("n1"), pod("a", requests={"cpu": "9"}))
    assert {"nodes", "pods"} <= found.versions.keys()
    path = tmp_path / "cluster.json.gz"
    write_snapshot(path, found.contents, source="here", versions=found.versions)
    contents, facts = read_snapshot(str(path))
    assert (contents, facts.source) == (found.contents, "here")
    from moorage.why.explain import explain_pod

    with session(*contents) as opened:
        assert explain_pod(opened, "default/a").changes[0].kind == "request"


def test_missing_permissions_are_all_named() -> None:
    class Refusing(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if "/nodes" in path or "csinodes" in path:
                raise Forbidden("no")
            return b'{"items": []}'

    async def go() -> None:
        await read_cluster(Refusing(Connection("http://localhost", "here")))

    with pytest.raises(InputError, match=r"we may not list nodes, csinodes\.storage") as caught:
        asyncio.run(go())
    assert 'allow verb "list" on resource "nodes" of apiGroup ""' in str(caught.value)


@pytest.mark.parametrize("number", range(12))
def test_renaming_changes_no_decision(number: int) -> None:
    """The same pods go to the same nodes, under other names."""
    from moorage.assembly.policy import collect_plugins, load_policy

    policy = load_policy(collect_plugins())
    case = generate(f"names/{number}", features=frozenset({"volumes"}))
    anonymizer = Anonymizer()
    renamed = anonymizer.anonymized(case.objects)

    def decisions(contents: Any) -> list[Any]:
        return OnePass(cluster_of(documents_of(contents, source="here")), policy).run()

    for was, now in zip(decisions(case.objects), decisions(renamed), strict=True):
        namespace, _, name = was.pod.partition("/")
        assert now.pod == f"{anonymizer.name(namespace)}/{anonymizer.name(name)}"
        assert now.result == was.result
        if len(was.tied) < 2:
            assert now.node == (anonymizer.name(was.node) if was.node else "")


def test_gangs_by_annotation_stay_gangs_under_other_names() -> None:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"moorage.io/gang": "team-ring", "moorage.io/gang-size": "3"}
    (kept,) = (content for content in read(waits).contents if content["kind"] == "Pod")
    assert kept["metadata"]["annotations"] == waits["metadata"]["annotations"]
    (renamed,) = Anonymizer().anonymized([kept])
    gang = renamed["metadata"]["annotations"]
    assert gang["moorage.io/gang-size"] == "3"
    assert gang["moorage.io/gang"] != "team-ring"


def test_ages_are_told() -> None:
    assert SnapshotFacts(0.0, "").age(3 * 86_400) == "3 days"


BAD_SNAPSHOTS = {
    "nothing": (None, "there is no such file"),
    "no JSON": (b"{", "this is no snapshot"),
    "another file": (b'{"kind": "List", "items": []}', "does not say when it was taken"),
    "a list": (b"[]", "does not say when it was taken"),
}


@pytest.mark.parametrize(("body", "told"), BAD_SNAPSHOTS.values(), ids=BAD_SNAPSHOTS)
def test_what_is_no_snapshot_is_told(body: bytes | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(InputError, match=told):
        read_snapshot(str(path))
