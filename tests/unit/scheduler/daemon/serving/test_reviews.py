"""Reviews: their content, and how long and how often their results are used."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest
from tests.support.certificates import Authority
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
    monkeypatch.setattr(review_limits, "MAX_IN_PROGRESS", 2)

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


def test_client_certificates_name_users_and_groups(reviews: ReviewServer, tmp_path: Path) -> None:
    authority, untrusted = Authority.create_in(tmp_path / "a"), Authority.create_in(tmp_path / "b")
    admin = authority.issue("admin", "system:masters")
    ann = authority.issue("ann")
    bob = authority.issue("bob")
    nameless = authority.issue("", "system:masters")
    trusted = AuthenticationOptions(client_ca_file=str(authority.file))
    replies = visits(
        reviews,
        tmp_path,
        {"certificate": admin},
        {"certificate": ann},
        {"certificate": bob},
        {"certificate": nameless},
        authentication=trusted,
    )
    assert [reply.status for reply in replies] == [200, 200, 403, 403]
    stranger = untrusted.issue("admin", "system:masters")
    assert visits(reviews, tmp_path, {"certificate": stranger})[0].status == 403


def test_certificate_signed_by_an_intermediate_ca_is_accepted(reviews: ReviewServer, tmp_path: Path) -> None:
    authority, proxy_authority = (Authority.create_in(tmp_path / name, name) for name in ("a", "b"))
    trusted = AuthenticationOptions(client_ca_file=str(authority.file))
    reviews.published = {
        "requestheader-client-ca-file": proxy_authority.pem.decode(),
        "requestheader-allowed-names": '["front"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": "[]",
        "requestheader-extra-headers-prefix": "[]",
    }
    ann, stranger = (
        above.authority(tmp_path / f"{n}x", "below") for n, above in enumerate((authority, proxy_authority))
    )
    requests = [{"certificate": _with_chain(below, below.issue("ann"))} for below in (ann, stranger)]
    assert [reply.status for reply in visits(reviews, tmp_path, *requests, authentication=trusted)] == [200, 403]


def _with_chain(authority: Authority, pair: tuple[Path, Path]) -> tuple[Path, Path]:
    """Have a client send the certificate of an intermediate CA along with its own."""
    pair[0].write_bytes(pair[0].read_bytes() + authority.pem)
    return pair


PROXIED = {
    "a trusted proxy names the user": ("front", ["front"], {"X-Remote-User": "ann"}, 200),
    "any proxy is trusted without a list of names": ("front", [], {"X-Remote-User": "ann"}, 200),
    "an untrusted proxy": ("back", ["front"], {"X-Remote-User": "ann"}, 403),
    "a proxy that names no user": ("front", ["front"], {}, 403),
    "groups are part of the user": (
        "front",
        ["front"],
        {"X-Remote-User": "x", "X-Remote-Group": "system:masters"},
        200,
    ),
}


@pytest.mark.parametrize(("name", "believed", "headers", "want"), PROXIED.values(), ids=PROXIED)
def test_proxies(
    name: str, believed: list[str], headers: dict[str, str], want: int, reviews: ReviewServer, tmp_path: Path
) -> None:
    authority = Authority.create_in(tmp_path / "p")
    reviews.published = {
        "requestheader-client-ca-file": authority.pem.decode(),
        "requestheader-allowed-names": json.dumps(believed),
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    request: dict[str, object] = {"certificate": authority.issue(name), "headers": headers}
    assert visits(reviews, tmp_path, request)[0].status == want


def test_headers_without_a_proxy_certificate_are_ignored(reviews: ReviewServer, tmp_path: Path) -> None:
    proxy_ca = str(Authority.create_in(tmp_path / "p").file)
    request: dict[str, object] = {"headers": {"X-Remote-User": "ann"}}
    options = AuthenticationOptions(proxy_ca_file=proxy_ca)
    assert visits(reviews, tmp_path, request, authentication=options)[0].status == 403


def test_a_trailer_names_no_user(reviews: ReviewServer, tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path / "p")
    certificate = authority.issue("front")
    proxy_ca = str(authority.file)
    request = (
        b"GET /metrics HTTP/1.1\r\nX-Remote-User: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        b"0\r\nX-Remote-Group: system:masters\r\nAuthorization: Bearer master\r\n\r\n"
    )

    async def work() -> bytes:
        async with reviews.running(tmp_path) as kubeconfig:
            authentication = AuthenticationOptions(kubeconfig, proxy_ca_file=proxy_ca)
            async with served(authentication=authentication, authorization=AuthorizationOptions(kubeconfig)) as visitor:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                context.load_cert_chain(*certificate)
                reader, writer = await asyncio.open_connection("127.0.0.1", visitor.server.port, ssl=context)
                writer.write(request)
                line = await reader.readline()
                writer.close()
                return line

    assert asyncio.run(work()).startswith(b"HTTP/1.1 403")
