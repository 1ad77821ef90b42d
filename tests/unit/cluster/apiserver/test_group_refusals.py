"""Requests about groups that kube-apiserver refused; `tests/live/test_group_refusals.py` asks it anew."""

from pathlib import Path

import msgspec
import pytest
from tests.support.api import Asked, Data
from tests.support.bad_group_requests import GATES, GOOD, LOOSE, REQUESTS
from tests.support.bad_requests import essence
from tests.unit.cluster.apiserver.test_refusals import answered

ANSWERS: dict[str, Data] = msgspec.json.decode((Path(__file__).parent / "group_refusals.json").read_bytes())


@pytest.fixture(scope="module")
def server() -> Asked:
    asked = Asked(gates=GATES)
    for ask in GOOD:
        answer = answered(asked, ask)
        assert answer.status == 201, answer.body
    return asked


@pytest.mark.parametrize("name", REQUESTS)
def test_refuses_it_in_the_words_of_kube_apiserver(name: str, server: Asked) -> None:
    answer = answered(server, REQUESTS[name])
    if name in LOOSE:
        assert answer.status == ANSWERS[name]["code"]
    else:
        assert essence(answer.status, answer.body, loosely=False) == ANSWERS[name]
