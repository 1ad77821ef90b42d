"""Authentication with tokens, certificates and proxies, reviewed by a test server."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.review_server import ReviewServer
from tests.support.serving import Reply, Visitor, served

from moorage.common.clock import VirtualClock
from moorage.common.errors import MoorageError
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, RequestHeaders
from moorage.scheduler.daemon.serving import reviews as review_limits
from moorage.scheduler.daemon.serving.reviews import TokenReviewer


@pytest.fixture
def reviews() -> ReviewServer:
    server = ReviewServer()
    server.users["good"] = {"username": "ann", "uid": "7", "groups": ["ops"], "extra": {"team": ["blue"]}}
    server.users["master"] = {"username": "root", "groups": ["system:masters"]}
    server.users["poor"] = {"username": "bob"}
    server.allowed.add(("ann", "get", "/metrics"))
    return server


def visits(
    reviews: ReviewServer,
    folder: Path,
    *requests: dict[str, object],
    authentication: AuthenticationOptions | None = None,
    clock: VirtualClock | None = None,
) -> list[Reply]:
    """Request /metrics with several credentials, in sequence."""

    async def work() -> list[Reply]:
        async with reviews.running(folder) as kubeconfig:
            who = authentication or AuthenticationOptions()
            who = AuthenticationOptions(
                kubeconfig, who.skip_lookup, who.tolerate_lookup_failure, who.cache_ttl, who.client_ca_file, who.headers
            )
            may = AuthorizationOptions(kubeconfig)
            async with served(authentication=who, authorization=may, clock=clock or VirtualClock()) as visitor:
                return [await _ask(visitor, request) for request in requests]

    return asyncio.run(work())


async def _ask(visitor: Visitor, request: dict[str, object]) -> Reply:
    return await visitor.ask(**{"path": "/metrics", **request})  # type: ignore[arg-type]


TOKENS = {
    "whom the API server lets in": ({"token": "good"}, 200),
    "whom it knows but does not let in": ({"token": "poor"}, 403),
    "a token of nobody": ({"token": "false"}, 401),
    "nobody in particular": ({}, 403),
    "cluster admins are not asked about": ({"token": "master"}, 200),
    "another verb is another question": ({"token": "good", "method": "DELETE"}, 403),
    "health is for everybody": ({"path": "/healthz"}, 200),
    "one check of health is not": ({"path": "/healthz/ping"}, 403),
}


@pytest.mark.parametrize(("asked", "want"), TOKENS.values(), ids=TOKENS)
def test_tokens(asked: dict[str, object], want: int, reviews: ReviewServer, tmp_path: Path) -> None:
    assert visits(reviews, tmp_path, asked)[0].status == want


def test_forbidden_response_names_user_and_path(reviews: ReviewServer, tmp_path: Path) -> None:
    status = json.loads(visits(reviews, tmp_path, {})[0].text)
    assert status["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Forbidden", 403)


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


def test_broken_api_server_denies_all_requests(reviews: ReviewServer, tmp_path: Path) -> None:
    reviews.is_broken = True
    with_token, without = visits(reviews, tmp_path, {"token": "good"}, {})
    assert (with_token.status, without.status) == (401, 403)


def test_without_kubeconfigs_only_open_paths_are_served() -> None:
    async def work() -> tuple[int, int, int]:
        async with served(authorization=AuthorizationOptions()) as visitor:
            replies = [await visitor.ask("/healthz"), await visitor.ask("/metrics"), await visitor.ask("/", token="x")]
            return replies[0].status, replies[1].status, replies[2].status

    assert asyncio.run(work()) == (200, 403, 401)


def test_client_certificates_name_users_and_groups(reviews: ReviewServer, tmp_path: Path) -> None:
    authority, untrusted = Authority.made_in(tmp_path / "a"), Authority.made_in(tmp_path / "b")
    admin = authority.issue("admin", "system:masters")
    ann = authority.issue("ann")
    bob = authority.issue("bob")
    trusted = AuthenticationOptions(client_ca_file=str(authority.file))
    replies = visits(
        reviews,
        tmp_path,
        {"certificate": admin},
        {"certificate": ann},
        {"certificate": bob},
        authentication=trusted,
    )
    assert [reply.status for reply in replies] == [200, 200, 403]
    stranger = untrusted.issue("admin", "system:masters")
    assert visits(reviews, tmp_path, {"certificate": stranger})[0].status == 403


def test_certificate_signed_by_an_intermediate_ca_is_accepted(reviews: ReviewServer, tmp_path: Path) -> None:
    authority, proxy_authority = (Authority.made_in(tmp_path / name, name) for name in ("a", "b"))
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


def test_cas_are_looked_up_in_the_cluster(reviews: ReviewServer, tmp_path: Path) -> None:
    authority = Authority.made_in(tmp_path / "a")
    reviews.published = {"client-ca-file": authority.pem.decode()}
    assert visits(reviews, tmp_path, {"certificate": authority.issue("ann")})[0].status == 200
    skipping = AuthenticationOptions(skip_lookup=True)
    replies = visits(reviews, tmp_path, {"certificate": authority.issue("ann")}, authentication=skipping)
    assert replies[0].status == 403


PROXIED = {
    "a proxy that is believed names the user": ("front", ["front"], {"X-Remote-User": "ann"}, 200),
    "any proxy will do if none is named": ("front", [], {"X-Remote-User": "ann"}, 200),
    "a proxy that is not believed": ("back", ["front"], {"X-Remote-User": "ann"}, 403),
    "a proxy that names nobody": ("front", ["front"], {}, 403),
    "groups come with the user": (
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
    authority = Authority.made_in(tmp_path / "p")
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
    headers = RequestHeaders(client_ca_file=str(Authority.made_in(tmp_path / "p").file))
    request: dict[str, object] = {"headers": {"X-Remote-User": "ann"}}
    options = AuthenticationOptions(headers=headers)
    assert visits(reviews, tmp_path, request, authentication=options)[0].status == 403


def test_failed_lookup_is_fatal_only_if_not_tolerated(reviews: ReviewServer, tmp_path: Path) -> None:
    strict = AuthenticationOptions(tolerate_lookup_failure=False)
    with pytest.raises(MoorageError, match="not found"):
        visits(reviews, tmp_path, {}, authentication=strict)


def test_a_trailer_names_no_user(reviews: ReviewServer, tmp_path: Path) -> None:
    authority = Authority.made_in(tmp_path / "p")
    certificate = authority.issue("front")
    headers = RequestHeaders(client_ca_file=str(authority.file))
    request = (
        b"GET /metrics HTTP/1.1\r\nX-Remote-User: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        b"0\r\nX-Remote-Group: system:masters\r\nAuthorization: Bearer master\r\n\r\n"
    )

    async def work() -> bytes:
        async with reviews.running(tmp_path) as kubeconfig:
            authentication = AuthenticationOptions(kubeconfig, headers=headers)
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


def test_token_is_reviewed_once_for_concurrent_requests(reviews: ReviewServer, tmp_path: Path) -> None:
    async def work() -> list[str]:
        async with reviews.running(tmp_path) as kubeconfig, ApiClient(load_connection(kubeconfig)) as client:
            reviewer = TokenReviewer(client, CellRegistry(), VirtualClock(), 10.0)
            hung_up = asyncio.create_task(reviewer.user_of("good"))
            await asyncio.sleep(0)
            hung_up.cancel()
            users = await asyncio.gather(*(reviewer.user_of("good") for _ in range(5)))
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
