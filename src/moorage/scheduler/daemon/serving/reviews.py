"""Query the API server for the identity and permissions of users; results are cached for a while."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Final, Generic, TypeVar

import msgspec

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import ApiError, ServerError, TooManyRequests
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.serving.users import User
from moorage.scheduler.framework.metering import Meter

MAX_CACHED: Final = 4096
MAX_UNDER_WAY: Final = 64
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
        self._known: LRU[bytes, tuple[float, V]] = LRU("access reviews", MAX_CACHED)
        self._under_way: dict[bytes, asyncio.Task[V]] = {}

    def find(self, key: bytes) -> V | None:
        """Return a result that is still valid."""
        cached = self._known.find(key)
        return cached[1] if cached is not None and cached[0] > self._clock.now() else None

    async def ask(self, key: bytes, ask: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        """Fetch a result, or wait for a fetch in progress; raise TooManyRequests if too many are in progress."""
        task = self._under_way.get(key)
        if task is None:
            if len(self._under_way) >= MAX_UNDER_WAY:
                raise TooManyRequests("too many requests are being reviewed, please try again later", status=429)
            task = self._under_way[key] = asyncio.ensure_future(self._answer(key, ask, ttl))
            task.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        # A client that disconnects does not cancel the result for the others.
        return await asyncio.shield(task)

    async def _answer(self, key: bytes, ask: Callable[[], Awaitable[V]], ttl: Callable[[V], float]) -> V:
        try:
            answer = await ask()
            self._known.put(key, (self._clock.now() + ttl(answer), answer))
            return answer
        finally:
            del self._under_way[key]


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
            status = await self._reviews.ask(key, lambda: self._fetch(token), lambda _: self._ttl)
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
        return await self._reviews.ask(
            key, lambda: self._ask(user, verb, path), lambda result: self._ttl[result.allowed]
        )

    async def _ask(self, user: User, verb: str, path: str) -> AccessStatus:
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
    client: ApiClient, meter: Meter, what: str, path: str, review: Mapping[str, object], kind: type[V]
) -> V:
    """Return the API server's response to a review, and count the request; raise ServerError for an invalid one."""
    began, code = perf_counter(), "<error>"
    try:
        answer = await client.request("POST", path, msgspec.json.encode(review), seconds=10.0)
        code = "201"
    except ApiError as error:
        code = str(error.status or "<error>")
        raise
    finally:
        meter.count(f"apiserver_delegated_{what}_request_total", code)
        meter.observe(f"apiserver_delegated_{what}_request_duration_seconds", perf_counter() - began, code)
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        raise ServerError(f"invalid review response from the API server: {error}") from error
