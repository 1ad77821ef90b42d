"""The harm of a preemption: its order, recomputed from the victims."""

import pytest

from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.victims import Victims
from moorage.testing import make_pod

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def victim(priority: int, start: str | None = EARLY) -> Pod:
    return make_pod(f"p{priority}", priority=priority, status=PodStatus(start_time=start))


LESS_HARMFUL = {
    "fewer violated budgets": (Victims((victim(9), victim(9)), 0), Victims((victim(1),), 1)),
    "a lower first priority": (Victims((victim(5), victim(5))), Victims((victim(6),))),
    "a lower sum": (Victims((victim(5), victim(1))), Victims((victim(5), victim(2)))),
    "fewer victims, although priorities are negative": (
        Victims((victim(-5),)),
        Victims((victim(-5), victim(-2_000_000_000))),
    ),
}


@pytest.mark.parametrize(("less", "more"), LESS_HARMFUL.values(), ids=LESS_HARMFUL)
def test_less_harmful_victims_weigh_less(less: Victims, more: Victims) -> None:
    assert less.harm.weight < more.harm.weight


def test_start_is_that_of_the_first_of_the_most_important_victims() -> None:
    now = parse_time("2026-01-03T00:00:00Z")
    assert Victims((victim(5, LATE), victim(1, EARLY))).harm.start(now) == parse_time(LATE)
    assert Victims((victim(1, EARLY), victim(5, LATE), victim(5, EARLY))).harm.start(now) == parse_time(EARLY)


def test_victim_that_has_not_started_is_treated_as_starting_now() -> None:
    before, now = parse_time("2025-12-31T00:00:00Z"), parse_time("2026-01-03T00:00:00Z")
    assert Victims((victim(5, None),)).harm.start(now) == now
    mixed = Victims((victim(5, LATE), victim(5, None))).harm
    assert (mixed.start(now), mixed.start(before)) == (parse_time(LATE), before)
