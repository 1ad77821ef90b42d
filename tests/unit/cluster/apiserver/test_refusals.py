"""Requests that kube-apiserver rejected, and its responses; `tests/live/test_refusals.py` repeats them."""

from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from tests.support.api import ApiHarness, Data
from tests.support.bad_requests import GOOD, OTHER_WORDING, REQUESTS, RequestCase, essence

from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse

ANSWERS: dict[str, Data] = msgspec.json.decode((Path(__file__).parent / "refusals.json").read_bytes())


@pytest.fixture(scope="module")
def server() -> ApiHarness:
    client = ApiHarness()
    for ask in GOOD:
        assert answered(client, ask).status == 201
    return client


def answered(client: ApiHarness, ask: RequestCase) -> ApiResponse:
    path, _, query = ask.path.partition("?")
    pairs = {key: unquote(text) for key, text in (pair.split("=", 1) for pair in query.split("&") if pair)}
    body = b"" if ask.body is None else ask.body if isinstance(ask.body, bytes) else msgspec.json.encode(ask.body)
    answer = client.api.answer(ApiRequest(ask.method, path, pairs, body, ask.content_type))
    assert isinstance(answer, ApiResponse)
    return answer


@pytest.mark.parametrize("name", [name for name in REQUESTS if name not in OTHER_WORDING])
def test_rejects_with_the_texts_of_kube_apiserver(name: str, server: ApiHarness) -> None:
    answer = answered(server, REQUESTS[name])
    assert essence(answer.status, answer.body, loosely=False) == ANSWERS[name]


@pytest.mark.parametrize("name", sorted(OTHER_WORDING))
def test_rejects_with_custom_messages(name: str, server: ApiHarness) -> None:
    assert 400 <= answered(server, REQUESTS[name]).status < 500
