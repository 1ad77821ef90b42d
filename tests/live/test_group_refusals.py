"""The embedded and the real API server reject the same requests about groups, and store the same objects."""

import asyncio
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from moorage.cluster.apiserver.server import ApiServer
from moorage.kube.api.codec import without_nulls
from moorage.kube.features import FeatureGates
from moorage.kube.plain_data import find
from tests.live.test_refusals import send
from tests.support.bad_group_requests import ALPHA, BETA, GATES, GOOD, OTHER_WORDING, REQUESTS, VERSIONS
from tests.support.bad_requests import RequestCase, essence
from tests.support.control_plane import ADMIN, control_plane
from tests.support.good_group_requests import CLASS, OBJECTS, PARTS, USUAL
from tests.unit.cluster.apiserver.test_group_refusals import ANSWERS

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
FEW: Final = "GenericWorkload=true"
Answers = dict[str, Any]


@pytest.fixture(scope="module", params=[GATES, FEW], ids=["all gates", "few gates"])
def answers(request: pytest.FixtureRequest) -> tuple[str, Answers, Answers]:
    """The enabled gates, and the responses of the real and the embedded server."""
    gates: str = request.param
    with control_plane(f"--feature-gates={gates}", f"--runtime-config={VERSIONS}") as plane:
        real = asyncio.run(asked(plane.server, plane.tokens[ADMIN], gates))

    async def ours() -> Answers:
        async with ApiServer(features=FeatureGates.parse(gates)) as server:
            return await asked(server.url, server.token, gates)

    return gates, real, asyncio.run(ours())


async def asked(server: str, token: str, gates: str) -> Answers:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
        results: Answers = {}
        if gates == GATES:
            for ask in GOOD:
                status, body = await send(session, server, ask)
                assert status == 201, body
            for name, ask in REQUESTS.items():
                results[name] = essence(*await send(session, server, ask), loosely=name in OTHER_WORDING)
            await send(session, server, RequestCase("DELETE", f"{CLASS.path}/meek"))
        for ask in (CLASS, USUAL):
            await send(session, server, ask)
        results |= {f"stored: {name}": await stored(session, server, ask) for name, ask in OBJECTS.items()}
        for version in (ALPHA, BETA):
            for plural in ("podgroups", "compositepodgroups", "workloads"):
                results[f"table: {plural} {version}"] = await table(session, server, f"/apis/{version}/{plural}")
    return results


async def stored(session: aiohttp.ClientSession, server: str, ask: RequestCase) -> Any:
    path = f"{ask.path}/{ask.body['metadata']['name']}"
    await send(session, server, RequestCase("DELETE", path, {"gracePeriodSeconds": 0}))
    await send(
        session, server, RequestCase("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    )
    status, _ = await send(session, server, ask)
    if status >= 400:
        return status
    data = msgspec.json.decode((await send(session, server, RequestCase("GET", path)))[1])
    data = without_nulls(data)
    return {part: find(data, part) for part in PARTS[ask.path.rpartition("/")[2]]}


async def table(session: aiohttp.ClientSession, server: str, path: str) -> Any:
    async with session.get(f"{server}{path}", headers={"Accept": TABLE}) as answer:
        content = await answer.json()
    if answer.status != 200:
        return answer.status
    names = [column["name"] for column in content["columnDefinitions"]]
    # The age is the last column; the servers are queried at different times.
    return [names, sorted(row["cells"][:-1] for row in content["rows"])]


def test_both_servers_respond_equally(answers: tuple[str, Answers, Answers]) -> None:
    _, real, actual = answers
    assert {name: answer for name, answer in actual.items() if answer != real[name]} == {
        name: answer for name, answer in real.items() if answer != actual[name]
    }


def test_recorded_errors_equal_those_of_the_real_server(answers: tuple[str, Answers, Answers]) -> None:
    gates, real, _ = answers
    if gates == GATES:
        assert {name: real[name] for name in REQUESTS if name not in OTHER_WORDING} == {
            name: answer for name, answer in ANSWERS.items() if name not in OTHER_WORDING
        }
