"""Users of the API: the administrator, service accounts with tokens, and impersonated users.

All users may do everything: the embedded server has no authorization. Access reviews return yes only for the
administrator, ``system:masters`` and users with names that start with ``system:``.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from moorage.kube.api.meta import format_time
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import invalid_value
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import invalid

AUTHENTICATED: Final = "system:authenticated"
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
MIN_SECONDS: Final = 600
MAX_SECONDS: Final = 1 << 32
_REQUESTS: Final = ServedResource("TokenRequest", "authentication.k8s.io", "v1", "tokenrequests")


class ApiUser(NamedTuple):
    """The name, groups and other facts of a user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def data(self) -> Data:
        """Return the user as UserInfo."""
        extra: dict[str, list[str]] = {}
        for key, text in self.extra:
            extra.setdefault(key, []).append(text)
        info = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {key: content for key, content in info.items() if content}


ADMINISTRATOR: Final = ApiUser("moorage-admin", ("system:masters", AUTHENTICATED))
"""The owner of the token in the kubeconfig."""
ANONYMOUS: Final = ApiUser("system:anonymous", ("system:unauthenticated",))


class Tokens:
    """Issues and reviews signed tokens of service accounts. ``secret`` is the administrator's token."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def request(self, account: Data, request: Data, now: float) -> Data:
        """Return a TokenRequest for a service account with its token."""
        spec, metadata = request.get("spec") or {}, account["metadata"]
        seconds, audiences = spec.get("expirationSeconds", 3600), spec.get("audiences") or [ISSUER]
        namespace, name = metadata["namespace"], metadata["name"]
        if not isinstance(seconds, int) or not MIN_SECONDS <= seconds <= MAX_SECONDS:
            is_long = isinstance(seconds, int) and seconds > MAX_SECONDS
            limit = "larger than 2^32 seconds" if is_long else f"less than {MIN_SECONDS // 60} minutes"
            reason = f"may not specify a duration {limit}"
            raise invalid(_REQUESTS, name, [invalid_value("spec.expirationSeconds", seconds, reason)])
        claims = {
            "aud": audiences,
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": metadata["uid"]}},
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return {
            **request,
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": format_time(now)},
            "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": self._issue(claims), "expirationTimestamp": format_time(now + seconds)},
        }

    def _issue(self, claims: Data) -> str:
        parts = (msgspec.json.encode(part) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        content = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
        return b".".join((content, self._sign(content))).decode()

    def _sign(self, content: bytes) -> bytes:
        return urlsafe_b64encode(hmac.digest(self._secret, content, "sha256")).rstrip(b"=")

    def authenticate(self, token: bytes, now: float) -> ApiUser | None:
        """Return the user of a token, or ``None`` if it is not valid."""
        if hmac.compare_digest(token, self._secret):
            return ADMINISTRATOR
        content, _, signature = token.rpartition(b".")
        if not content or not hmac.compare_digest(signature, self._sign(content)):
            return None
        body = content.partition(b".")[2]
        claims = msgspec.json.decode(urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
        _, _, namespace, name = str(claims["sub"]).split(":")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        uid = claims["kubernetes.io"]["serviceaccount"]["uid"]
        return ApiUser(f"system:serviceaccount:{namespace}:{name}", groups, uid) if claims["exp"] > now else None

    def review(self, plural: str, spec: Data, user: ApiUser, now: float) -> Data:
        """Return the status of a token or access review. The administrator and the cluster's components may do all."""
        all_verbs = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        match plural:
            case "tokenreviews":
                owner = self.authenticate(str(spec.get("token") or "").encode(), now)
                if owner is None:
                    return {"authenticated": False, "error": "invalid bearer token"}
                return {"authenticated": True, "user": owner.data(), "audiences": spec.get("audiences") or [ISSUER]}
            case "selfsubjectreviews":
                return {"userInfo": user.data()}
            case "selfsubjectaccessreviews":
                return {"allowed": _may_do_everything(user.name, user.groups)}
            case "selfsubjectrulesreviews":
                urls = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
                return {"resourceRules": [all_verbs], "nonResourceRules": urls, "incomplete": False}
        return {"allowed": _may_do_everything(spec.get("user") or "", spec.get("groups") or [])}


def _may_do_everything(name: str, groups: Sequence[str]) -> bool:
    is_known = name == ADMINISTRATOR.name or name.startswith("system:") or "system:masters" in groups
    return is_known and name != "system:anonymous"


def impersonated(headers: Iterable[tuple[bytes, bytes]]) -> ApiUser:
    """Return the user in the impersonation headers of a request."""
    name, uid, groups, extra = "", "", [], []
    for raw_key, raw_text in headers:
        key, text = raw_key.decode("latin-1"), raw_text.decode("latin-1")
        if key == "impersonate-user":
            name = name or text
        elif key == "impersonate-uid":
            uid = uid or text
        elif key == "impersonate-group":
            groups.append(text)
        elif key.startswith("impersonate-extra-"):
            extra.append((key.removeprefix("impersonate-extra-"), text))
    is_account = name.startswith("system:serviceaccount:") and name.count(":") == 3
    if is_account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
    everyone = "system:unauthenticated" if name == "system:anonymous" else AUTHENTICATED
    return ApiUser(name, tuple(dict.fromkeys((*groups, everyone))), uid, tuple(extra))
