"""Rate limits of requests."""

import pytest

from moorage.common.clock import VirtualClock
from moorage.kube.client.flow_control import TokenBucket, make_rate_limit


def test_a_limit_spreads_writes_beyond_the_burst() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(10, 5, clock)
    assert [bucket.take() for _ in range(7)] == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2])
    clock.advance(10)
    assert bucket.take() == 0


LIMITS = {
    "an empty configuration has no limit": (None, None, None),
    "a negative qps disables the limit": (-1.0, 10, None),
    "zero means upstream's defaults": (0.0, 0, (50.0, 100)),
    "what is written counts": (7.0, 9, (7.0, 9)),
    "a burst alone gets the default qps": (None, 9, (50.0, 9)),
}


@pytest.mark.parametrize(("qps", "burst", "want"), LIMITS.values(), ids=LIMITS)
def test_limits(qps: float | None, burst: int | None, want: tuple[float, int] | None) -> None:
    clock = VirtualClock()
    limit = make_rate_limit(qps, burst, clock)
    if want is None:
        assert limit is None
        return
    assert limit is not None
    waits = [limit.take() for _ in range(want[1] + 1)]
    assert waits == pytest.approx([0.0] * want[1] + [1 / want[0]])
