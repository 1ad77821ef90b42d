"""Tokens of service accounts, and impersonated users."""

import pytest
from tests.support.api import ApiHarness

from moorage.cluster.apiserver.users import Tokens, impersonated

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def test_requested_token_authenticates_its_service_account_until_it_expires():
    client = ApiHarness()
    client.create(ACCOUNTS, {"metadata": {"name": "builder"}})
    issued = client.create(f"{ACCOUNTS}/builder/token", {"spec": {"expirationSeconds": 600}})
    review = client.create(REVIEWS, {"spec": {"token": issued["status"]["token"]}})
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:builder"
    assert "system:serviceaccounts:default" in review["status"]["user"]["groups"]
    client.clock.advance(601)
    assert client.create(REVIEWS, {"spec": {"token": issued["status"]["token"]}})["status"]["authenticated"] is False


def test_token_of_another_server_or_with_other_claims_is_rejected():
    account = {"metadata": {"name": "builder", "namespace": "default", "uid": "1"}}
    token = Tokens("secret").request(account, {}, 0.0)["status"]["token"]
    assert Tokens("secret").authenticate(token.encode(), 1.0) is not None
    assert Tokens("other").authenticate(token.encode(), 1.0) is None
    head, body, signature = token.split(".")
    for forged in (f"{head}.{body[:-2]}AA.{signature}", f"{head}.{body}", "", ".", "a.b.c"):
        assert Tokens("secret").authenticate(forged.encode(), 1.0) is None


def test_token_with_an_invalid_lifetime_and_token_of_a_missing_account_are_rejected():
    client = ApiHarness()
    client.create(ACCOUNTS, {"metadata": {"name": "builder"}})
    error = client.request("POST", f"{ACCOUNTS}/builder/token", {"spec": {"expirationSeconds": 5}}, want=422)
    assert "may not specify a duration less than 10 minutes" in error["message"]
    error = client.request("POST", f"{ACCOUNTS}/builder/token", {"spec": {"expirationSeconds": 2**33}}, want=422)
    assert "may not specify a duration larger than 2^32 seconds" in error["message"]
    client.request("POST", f"{ACCOUNTS}/ghost/token", {}, want=404)
    client.request("GET", f"{ACCOUNTS}/builder/token", want=405)


IMPERSONATED = {
    "a user": ([(b"impersonate-user", b"ann")], "ann", ["system:authenticated"]),
    "a user in groups": (
        [(b"impersonate-user", b"ann"), (b"impersonate-group", b"dev"), (b"impersonate-group", b"ops")],
        "ann",
        ["dev", "ops", "system:authenticated"],
    ),
    "a service account gets its groups": (
        [(b"impersonate-user", b"system:serviceaccount:shop:web")],
        "system:serviceaccount:shop:web",
        ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
    ),
    "the anonymous user": (
        [(b"impersonate-user", b"system:anonymous")],
        "system:anonymous",
        ["system:unauthenticated"],
    ),
}


@pytest.mark.parametrize(("headers", "name", "groups"), IMPERSONATED.values(), ids=IMPERSONATED)
def test_impersonated_user(headers: list[tuple[bytes, bytes]], name: str, groups: list[str]) -> None:
    data = impersonated([*headers, (b"impersonate-extra-scope", b"a")]).data()
    assert data == {"username": name, "groups": groups, "extra": {"scope": ["a"]}}
