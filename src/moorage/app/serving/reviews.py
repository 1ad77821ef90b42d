"""Asking the API server who somebody is and what they may do; answers are remembered for a while."""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Final, Generic, TypeVar

import msgspec

from moorage.app.serving.users import User
from moorage.client.rest import ApiClient
from moorage.clock import Clock
from moorage.errors import ApiError
from moorage.framework.metering import Meter

MOST_REMEMBERED: Final = 4096
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values that are true for some seconds; the oldest are dropped when there are too many."""

    def __init__(self, clock: Clock, most: int = MOST_REMEMBERED) -> None:
        self._clock = clock
        self._most = most
        self._values: OrderedDict[object, tuple[float, V]] = OrderedDict()

    def get(self, key: object) -> V | None:
        """Return what is remembered and still true."""
        found = self._values.get(key)
        return found[1] if found is not None and found[0] > self._clock.now() else None

    def put(self, key: object, value: V, seconds: float) -> None:
        """Remember a value."""
        self._values[key] = (self._clock.now() + seconds, value)
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user in a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenStatus(msgspec.Struct, frozen=True):
    """What a TokenReview says."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    error: str = ""


class AccessStatus(msgspec.Struct, frozen=True):
    """What a SubjectAccessReview says."""

    allowed: bool = False
    reason: str = ""


class TokenAnswer(msgspec.Struct, frozen=True):
    """A TokenReview."""

    status: TokenStatus = TokenStatus()


class AccessAnswer(msgspec.Struct, frozen=True):
    """A SubjectAccessReview."""

    status: AccessStatus = AccessStatus()


class TokenReviewer:
    """Finds out whose token it is. ``None`` for nobody's; ApiError if the API server does not say."""

    def __init__(self, client: ApiClient, meter: Meter, clock: Clock, ttl: float) -> None:
        self._client = client
        self._meter = meter
        self._ttl = ttl
        self._remembered: Remembered[TokenStatus] = Remembered(clock)

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token."""
        # The token itself is not kept in memory any longer than the request.
        key = hashlib.sha256(token.encode()).digest()
        status = self._remembered.get(key)
        self._meter.count("authentication_token_cache_request_total", "miss" if status is None else "hit")
        if status is None:
            status = await self._fetch(token)
            self._remembered.put(key, status, self._ttl)
        if not status.authenticated:
            return None
        told = status.user
        return User(told.username, told.uid, told.groups, tuple(sorted(told.extra.items())))

    async def _fetch(self, token: str) -> TokenStatus:
        result = "error"
        try:
            status = await self._ask(token)
            result = "ok"
            return status
        finally:
            self._meter.count("authentication_token_cache_fetch_total", result)

    async def _ask(self, token: str) -> TokenStatus:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        body = msgspec.json.encode(review)
        answer = await measured(
            self._meter, "authn", lambda: self._client.request("POST", TOKEN_REVIEWS, body, seconds=10.0)
        )
        return msgspec.json.decode(answer, type=TokenAnswer).status


class AccessReviewer:
    """Finds out whether somebody may do something; ApiError if the API server does not say."""

    def __init__(self, client: ApiClient, meter: Meter, clock: Clock, allowed_ttl: float, denied_ttl: float) -> None:
        self._client = client
        self._meter = meter
        self._ttl = {True: allowed_ttl, False: denied_ttl}
        self._remembered: Remembered[AccessStatus] = Remembered(clock)

    async def decide(self, user: User, verb: str, path: str) -> AccessStatus:
        """Ask whether a user may do something to a path."""
        key = (user, verb, path)
        status = self._remembered.get(key)
        if status is None:
            status = await self._ask(user, verb, path)
            self._remembered.put(key, status, self._ttl[status.allowed])
        return status

    async def _ask(self, user: User, verb: str, path: str) -> AccessStatus:
        spec = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        body = msgspec.json.encode(review)
        answer = await measured(
            self._meter, "authz", lambda: self._client.request("POST", ACCESS_REVIEWS, body, seconds=10.0)
        )
        return msgspec.json.decode(answer, type=AccessAnswer).status


async def measured(meter: Meter, what: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
    """Count a request and how long it took, by the code of its answer."""
    began, code = perf_counter(), "<error>"
    try:
        answer = await ask()
        code = "201"
        return answer  # noqa: TRY300 - the finally below needs the code
    except ApiError as error:
        code = str(error.status or "<error>")
        raise
    finally:
        meter.count(f"apiserver_delegated_{what}_request_total", code)
        meter.observe(f"apiserver_delegated_{what}_request_duration_seconds", perf_counter() - began, code)
