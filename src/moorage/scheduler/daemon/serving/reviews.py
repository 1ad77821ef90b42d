"""Query the API server for the identity and permissions of users. Results are cached for a while."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import ApiError, InputError, ServerError, TooManyRequests
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.options import ProxyHeaders
from moorage.scheduler.framework.metering import Meter

if TYPE_CHECKING:
    from cryptography import x509

AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class User(Struct, frozen=True):
    """A user, and the groups they belong to."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def authenticated(self) -> "User":
        """Return the same user as a member of the authenticated group."""
        return self if AUTHENTICATED in self.groups else replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


class Authorities:
    """A CA bundle."""

    def __init__(self, bundle: bytes = b"") -> None:
        self._certificates = _load_bundle(bundle) if bundle else []

    def issued(self, chain: "Sequence[x509.Certificate]") -> bool:
        """Return whether a CA of the bundle issued the certificate, or one above it in the chain verified by TLS."""
        return any(_is_issuer(authority, certificate) for certificate in chain for authority in self._certificates)


def _load_bundle(bundle: bytes) -> "list[x509.Certificate]":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise InputError("the CAs of clients", f"invalid certificate: {error}") from error


def _is_issuer(authority: "x509.Certificate", certificate: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def certificate_user(certificate: "x509.Certificate") -> User | None:
    """Return the user of a client certificate: the common name, and each organization as a group.

    As in Kubernetes, a certificate without a common name names no user.
    """
    from cryptography.x509.oid import NameOID

    if not _common_name(certificate):
        return None
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(_common_name(certificate), groups=tuple(str(part.value) for part in organizations))


def proxied_user(
    headers: Iterable[tuple[str, str]], certificate: "x509.Certificate", names: ProxyHeaders
) -> User | None:
    """Return the user that a proxy names, or ``None`` without a name, or if the proxy is not trusted."""
    if names.allowed_names and _common_name(certificate) not in names.allowed_names:
        return None
    header_values: dict[str, list[str]] = {}
    for name, value in headers:
        header_values.setdefault(name.lower(), []).append(value)
    username = _find_first(header_values, names.username)
    if not username:
        return None
    groups = [group for header in names.group for group in header_values.get(header.lower(), ())]
    extra = {
        unquote(header.removeprefix(prefix.lower())): tuple(values)
        for prefix in names.extra_prefix
        for header, values in header_values.items()
        if header.startswith(prefix.lower())
    }
    return User(username, _find_first(header_values, names.uid), tuple(groups), tuple(sorted(extra.items())))


def _find_first(header_values: Mapping[str, list[str]], names: Sequence[str]) -> str:
    return next((header_values[name.lower()][0] for name in names if header_values.get(name.lower())), "")


def _common_name(certificate: "x509.Certificate") -> str:
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


MAX_CACHED: Final = 4096
MAX_IN_PROGRESS: Final = 64
"""Concurrent requests to the API server: clients of this server must not be able to keep it busy."""
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

V = TypeVar("V")


class CachedReviews(Generic[V]):
    """Results by request: valid for some seconds, fetched once for all waiting callers, with limited concurrency.

    Requests are stored as digests: they contain secrets, and may be of any length.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cached: LRU[bytes, tuple[float, V]] = LRU("access reviews", MAX_CACHED)
        self._in_progress: dict[bytes, asyncio.Task[V]] = {}

    def find(self, key: bytes) -> V | None:
        """Return the cached result if it is still valid."""
        cached = self._cached.find(key)
        return cached[1] if cached is not None and cached[0] > self._clock.now() else None

    async def fetch(self, key: bytes, review: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        """Fetch a result, or wait for a fetch in progress. Raise TooManyRequests if too many are in progress."""
        task = self._in_progress.get(key)
        if task is None:
            if len(self._in_progress) >= MAX_IN_PROGRESS:
                raise TooManyRequests("too many requests are being reviewed, please try again later", status=429)
            task = self._in_progress[key] = asyncio.ensure_future(self._fetch(key, review, ttl))
            task.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        # A client that disconnects does not cancel the result for other clients.
        return await asyncio.shield(task)

    async def _fetch(self, key: bytes, review: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        try:
            result = await review()
            self._cached.put(key, (self._clock.now() + ttl(result), result))
            return result
        finally:
            del self._in_progress[key]


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user in a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenStatus(msgspec.Struct, frozen=True):
    """The result of a TokenReview."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    error: str = ""


class AccessStatus(msgspec.Struct, frozen=True):
    """The result of a SubjectAccessReview."""

    allowed: bool = False
    reason: str = ""


class TokenAnswer(msgspec.Struct, frozen=True):
    """A TokenReview."""

    status: TokenStatus = TokenStatus()


class AccessAnswer(msgspec.Struct, frozen=True):
    """A SubjectAccessReview."""

    status: AccessStatus = AccessStatus()


class TokenReviewer:
    """Finds the user of a token. ``None`` for an invalid token; ApiError if the API server returns no result."""

    def __init__(self, client: ApiClient, meter: Meter, clock: Clock, ttl: float) -> None:
        self._client = client
        self._meter = meter
        self._ttl = ttl
        self._reviews: CachedReviews[TokenStatus] = CachedReviews(clock)

    async def find_user(self, token: str) -> User | None:
        """Return the user of a token."""
        key = hashlib.sha256(token.encode()).digest()
        status = self._reviews.find(key)
        self._meter.count("authentication_token_cache_request_total", "miss" if status is None else "hit")
        if status is None:
            status = await self._reviews.fetch(key, lambda: self._fetch(token), lambda _: self._ttl)
        if not status.authenticated:
            return None
        user = status.user
        return User(user.username, user.uid, user.groups, tuple(sorted(user.extra.items())))

    async def _fetch(self, token: str) -> TokenStatus:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        result = "error"
        try:
            status = (await post_review(self._client, self._meter, "authn", TOKEN_REVIEWS, review, TokenAnswer)).status
            result = "ok"
            return status
        finally:
            self._meter.count("authentication_token_cache_fetch_total", result)


class AccessReviewer:
    """Finds out whether a user may do something; ApiError if the API server returns no result."""

    def __init__(self, client: ApiClient, meter: Meter, clock: Clock, allowed_ttl: float, denied_ttl: float) -> None:
        self._client = client
        self._meter = meter
        self._ttl = {True: allowed_ttl, False: denied_ttl}
        self._reviews: CachedReviews[AccessStatus] = CachedReviews(clock)

    async def decide(self, user: User, verb: str, path: str) -> AccessStatus:
        """Return whether a user may use a verb on a path."""
        key = hashlib.sha256(msgspec.json.encode((user, verb, path))).digest()
        status = self._reviews.find(key)
        if status is not None:
            return status
        return await self._reviews.fetch(
            key, lambda: self._review(user, verb, path), lambda result: self._ttl[result.allowed]
        )

    async def _review(self, user: User, verb: str, path: str) -> AccessStatus:
        spec = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return (await post_review(self._client, self._meter, "authz", ACCESS_REVIEWS, review, AccessAnswer)).status


async def post_review(
    client: ApiClient, meter: Meter, operation: str, path: str, review: Mapping[str, object], kind: type[V]
) -> V:
    """Return the API server's response to a review, and count the request. Raise ServerError for an invalid one."""
    began, code = perf_counter(), "<error>"
    try:
        answer = await client.request("POST", path, msgspec.json.encode(review), seconds=10.0)
        code = "201"
    except ApiError as error:
        code = str(error.status or "<error>")
        raise
    finally:
        meter.count(f"apiserver_delegated_{operation}_request_total", code)
        meter.observe(f"apiserver_delegated_{operation}_request_duration_seconds", perf_counter() - began, code)
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        raise ServerError(f"invalid review response from the API server: {error}") from error
