"""Reviews: their content, and how long and how often their results are used."""

import asyncio
from pathlib import Path

import pytest
from tests.support.review_server import ReviewServer
from tests.support.review_visits import visits
from tests.support.serving import served

from moorage.common.clock import VirtualClock
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions
from moorage.scheduler.daemon.serving import reviews as review_limits
from moorage.scheduler.daemon.serving.reviews import TokenReviewer


def test_reviews_contain_all_user_attributes(reviews: ReviewServer, tmp_path: Path) -> None:
    visits(reviews, tmp_path, {"token": "good"})
    assert reviews.access_reviews == [
        {
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": "ann",
            "uid": "7",
            "groups": ["ops", "system:authenticated"],
            "extra": {"team": ["blue"]},
        }
    ]


def test_review_results_are_cached_for_a_while(reviews: ReviewServer, tmp_path: Path) -> None:
    good: dict[str, object] = {"token": "good"}
    visits(reviews, tmp_path, good, good, good)
    assert (reviews.token_reviews, len(reviews.access_reviews)) == (1, 1)


class Impatient(VirtualClock):
    """A clock that is eleven seconds later whenever it is looked at."""

    def now(self) -> float:
        self.advance(11.0)
        return super().now()


def test_review_results_expire(reviews: ReviewServer, tmp_path: Path) -> None:
    visits(reviews, tmp_path, {"token": "good"}, {"token": "good"}, clock=Impatient())
    assert (reviews.token_reviews, len(reviews.access_reviews)) == (2, 2)


def test_token_is_reviewed_once_for_concurrent_requests(reviews: ReviewServer, tmp_path: Path) -> None:
    async def work() -> list[str]:
        async with reviews.running(tmp_path) as kubeconfig, ApiClient(load_connection(kubeconfig)) as client:
            reviewer = TokenReviewer(client, CellRegistry(), VirtualClock(), 10.0)
            hung_up = asyncio.create_task(reviewer.find_user("good"))
            await asyncio.sleep(0)
            hung_up.cancel()
            users = await asyncio.gather(*(reviewer.find_user("good") for _ in range(5)))
            return [user.name for user in users if user is not None]

    assert asyncio.run(work()) == ["ann"] * 5
    assert reviews.token_reviews == 1


def test_number_of_concurrent_token_reviews_is_limited(
    reviews: ReviewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_limits, "MAX_UNDER_WAY", 2)

    async def work() -> list[int]:
        async with reviews.running(tmp_path) as kubeconfig:
            reviews.gate.clear()
            authentication, may = AuthenticationOptions(kubeconfig), AuthorizationOptions(kubeconfig)
            async with served(authentication=authentication, authorization=may) as visitor, asyncio.timeout(30):
                waiting = [asyncio.create_task(visitor.ask("/metrics", token=f"t{n}")) for n in range(2)]
                while reviews.token_reviews < 2:
                    await asyncio.sleep(0.001)
                rejection = await visitor.ask("/metrics", token="good")
                assert rejection.headers["Retry-After"] == "1"
                healthy = await visitor.ask("/healthz")
                reviews.gate.set()
                again = [(await task).status for task in waiting]
                return [rejection.status, healthy.status, *again, (await visitor.ask("/metrics", token="good")).status]

    assert asyncio.run(work()) == [429, 200, 401, 401, 200]
