"""Requests about groups that kube-apiserver rejected; `tests/live/test_group_refusals.py` repeats them."""

from pathlib import Path

import msgspec
import pytest
from tests.support.api import ApiHarness, Data
from tests.support.bad_group_requests import GATES, GOOD, OTHER_WORDING, REQUESTS
from tests.support.bad_requests import essence
from tests.unit.cluster.apiserver.test_refusals import answered

ANSWERS: dict[str, Data] = msgspec.json.decode((Path(__file__).parent / "group_refusals.json").read_bytes())


@pytest.fixture(scope="module")
def server() -> ApiHarness:
    client = ApiHarness(gates=GATES)
    for ask in GOOD:
        answer = answered(client, ask)
        assert answer.status == 201, answer.body
    return client


@pytest.mark.release("1.37")
@pytest.mark.parametrize("name", REQUESTS)
def test_rejects_with_the_texts_of_kube_apiserver(name: str, server: ApiHarness) -> None:
    answer = answered(server, REQUESTS[name])
    if name in OTHER_WORDING:
        assert answer.status == ANSWERS[name]["code"]
    else:
        assert essence(answer.status, answer.body, loosely=False) == ANSWERS[name]
