"""Options of tracing."""

import pytest

from moorage.common.errors import InputError
from moorage.scheduler.daemon.tracing import sampled_share, traces_url

URLS = {
    "a server": ("http://localhost:4318", "http://localhost:4318/v1/traces"),
    "a server with a slash": ("https://collector:4318/", "https://collector:4318/v1/traces"),
    "a complete address": ("http://collector/otlp/v1/traces", "http://collector/otlp/v1/traces"),
}


@pytest.mark.parametrize(("endpoint", "url"), URLS.values(), ids=URLS)
def test_path_of_traces_is_added_to_a_server(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector:4317", "http://", ""])
def test_addresses_of_other_protocols_are_rejected(endpoint: str) -> None:
    with pytest.raises(InputError, match="not a URL of http or https"):
        traces_url(endpoint)


def test_sampling_rate_is_a_share_of_a_million() -> None:
    assert (sampled_share(0), sampled_share(10_000), sampled_share(1_000_000)) == (0.0, 0.01, 1.0)
    for rate in (-1, 1_000_001):
        with pytest.raises(InputError, match="is not a number from 0 to 1000000"):
            sampled_share(rate)
