"""Token and access reviews; the owner of the token is the administrator."""

from collections.abc import Callable, Mapping
from typing import Final

from moorage.kube.api.struct import Data

USER: Final[Data] = {"username": "moorage-admin", "groups": ["system:masters", "system:authenticated"]}


class Reviews:
    """Fills in the status of review objects."""

    def __init__(self, knows_token: Callable[[str], bool]) -> None:
        self._knows_token = knows_token
        self._answers: Mapping[str, Callable[[Data], Data]] = {
            "tokenreviews": self._token,
            "selfsubjectreviews": lambda _spec: {"userInfo": USER},
            "subjectaccessreviews": _access,
            "selfsubjectaccessreviews": lambda _spec: {"allowed": True, "reason": "the token allows everything"},
            "localsubjectaccessreviews": _access,
            "selfsubjectrulesreviews": _rules,
        }

    def answer(self, plural: str, data: Data) -> Data:
        """Return a review with its status; its types are already checked."""
        return {**data, "status": self._answers[plural](data.get("spec") or {})}

    def _token(self, spec: Data) -> Data:
        if self._knows_token(spec.get("token") or ""):
            return {"authenticated": True, "user": USER}
        return {"authenticated": False, "error": "invalid bearer token"}


def _access(spec: Data) -> Data:
    """Allow everything to the administrator and to components of the cluster, and nothing to other users."""
    groups, user = spec.get("groups") or [], spec.get("user") or ""
    is_known = user == USER["username"] or user.startswith("system:") or "system:masters" in groups
    return {"allowed": is_known and user != "system:anonymous"}


def _rules(_spec: Data) -> Data:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
