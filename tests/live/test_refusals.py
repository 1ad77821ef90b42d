"""The embedded and the real API server reject the same requests, with the same messages."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from moorage.cluster.apiserver.server import ApiServer
from tests.support.api import Data
from tests.support.bad_requests import GOOD, OTHER_WORDING, REQUESTS, SERVER_ERRORS, RequestCase, essence
from tests.support.control_plane import ADMIN, control_plane
from tests.unit.cluster.apiserver.test_refusals import ANSWERS


@pytest.fixture(scope="module")
def answers() -> tuple[dict[str, Data], dict[str, Data]]:
    """The responses of the real and the embedded server, by request."""
    with control_plane() as plane:
        real = asyncio.run(asked(plane.server, plane.tokens[ADMIN]))

    async def ours() -> dict[str, Data]:
        async with ApiServer() as server:
            return await asked(server.url, server.token)

    return real, asyncio.run(ours())


async def asked(server: str, token: str) -> dict[str, Data]:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
        for ask in GOOD:
            status, body = await send(session, server, ask)
            assert status == 201, body
        selected = {name: await send(session, server, ask) for name, ask in REQUESTS.items()}
    return {name: essence(*answer, loosely=name in OTHER_WORDING) for name, answer in selected.items()}


async def send(session: aiohttp.ClientSession, server: str, ask: RequestCase) -> tuple[int, bytes]:
    body: Any = ask.body if isinstance(ask.body, bytes | None) else msgspec.json.encode(ask.body)
    request = session.request(ask.method, f"{server}{ask.path}", data=body, headers={"Content-Type": ask.content_type})
    async with request as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize("name", REQUESTS)
def test_both_servers_reject_with_the_same_message(name: str, answers: tuple[dict[str, Data], dict[str, Data]]) -> None:
    real, actual = answers
    assert real[name]["code"] >= 400, "the table contains only rejected requests"
    if name not in SERVER_ERRORS:
        assert actual[name] == real[name]


def test_recorded_errors_equal_those_of_the_real_server(answers: tuple[dict[str, Data], dict[str, Data]]) -> None:
    assert {name: answer for name, answer in answers[0].items() if name not in OTHER_WORDING} == ANSWERS
