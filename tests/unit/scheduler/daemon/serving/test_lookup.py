"""Client CAs that the cluster publishes."""

from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.review_server import ReviewServer
from tests.support.review_visits import visits

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.options import AuthenticationOptions


def test_cas_are_looked_up_in_the_cluster(reviews: ReviewServer, tmp_path: Path) -> None:
    authority = Authority.made_in(tmp_path / "a")
    reviews.published = {"client-ca-file": authority.pem.decode()}
    assert visits(reviews, tmp_path, {"certificate": authority.issue("ann")})[0].status == 200
    skipping = AuthenticationOptions(skip_lookup=True)
    replies = visits(reviews, tmp_path, {"certificate": authority.issue("ann")}, authentication=skipping)
    assert replies[0].status == 403


def test_failed_lookup_is_fatal_only_if_not_tolerated(reviews: ReviewServer, tmp_path: Path) -> None:
    strict = AuthenticationOptions(tolerate_lookup_failure=False)
    with pytest.raises(MoorageError, match="not found"):
        visits(reviews, tmp_path, {}, authentication=strict)
