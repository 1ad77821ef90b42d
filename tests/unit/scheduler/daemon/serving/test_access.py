"""Authentication with tokens, certificates and proxies, reviewed by a test server."""

import json
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.review_server import ReviewServer
from tests.support.review_visits import visits

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.options import AuthenticationOptions

TOKENS = {
    "an authorized user": ({"token": "good"}, 200),
    "an authenticated user without permission": ({"token": "poor"}, 403),
    "an invalid token": ({"token": "false"}, 401),
    "an anonymous request": ({}, 403),
    "cluster admins are not reviewed": ({"token": "master"}, 200),
    "another verb is another question": ({"token": "good", "method": "DELETE"}, 403),
    "health needs no permission": ({"path": "/healthz"}, 200),
    "one check of health is not": ({"path": "/healthz/ping"}, 403),
}


@pytest.mark.parametrize(("options", "want"), TOKENS.values(), ids=TOKENS)
def test_tokens(options: dict[str, object], want: int, reviews: ReviewServer, tmp_path: Path) -> None:
    assert visits(reviews, tmp_path, options)[0].status == want


def test_forbidden_response_names_user_and_path(reviews: ReviewServer, tmp_path: Path) -> None:
    status = json.loads(visits(reviews, tmp_path, {})[0].text)
    assert status["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Forbidden", 403)


def test_broken_api_server_denies_all_requests(reviews: ReviewServer, tmp_path: Path) -> None:
    reviews.is_broken = True
    with_token, without = visits(reviews, tmp_path, {"token": "good"}, {})
    assert (with_token.status, without.status) == (401, 403)


def test_cas_are_looked_up_in_the_cluster(reviews: ReviewServer, tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path / "a")
    reviews.published = {"client-ca-file": authority.pem.decode()}
    assert visits(reviews, tmp_path, {"certificate": authority.issue("ann")})[0].status == 200
    skipping = AuthenticationOptions(skip_lookup=True)
    replies = visits(reviews, tmp_path, {"certificate": authority.issue("ann")}, authentication=skipping)
    assert replies[0].status == 403


def test_failed_lookup_is_fatal_only_if_not_tolerated(reviews: ReviewServer, tmp_path: Path) -> None:
    strict = AuthenticationOptions(tolerate_lookup_failure=False)
    with pytest.raises(MoorageError, match="not found"):
        visits(reviews, tmp_path, {}, authentication=strict)
