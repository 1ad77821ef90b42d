"""A server for reviews."""

import pytest
from tests.support.review_server import ReviewServer


@pytest.fixture
def reviews() -> ReviewServer:
    server = ReviewServer()
    server.users["good"] = {"username": "ann", "uid": "7", "groups": ["ops"], "extra": {"team": ["blue"]}}
    server.users["master"] = {"username": "root", "groups": ["system:masters"]}
    server.users["poor"] = {"username": "bob"}
    server.allowed.add(("ann", "get", "/metrics"))
    return server
