"""A sample of `python -m tests.hostile`: the API server responds correctly to any HTTP request."""

from tests.hostile import expressions
from tests.hostile.campaign import Campaign


def test_hostile_requests_get_responses_and_keep_the_store_intact() -> None:
    campaign = Campaign("a taste")
    campaign.run(400)
    assert not campaign.problems, f"seed {campaign.seed}: {campaign.problems}"
    assert {200, 201, 400, 404, 405, 409, 413, 415, 422} <= campaign.statuses.keys()


def test_hostile_selectors_remain_within_their_budget() -> None:
    assert not expressions.problems("a taste", 60)
