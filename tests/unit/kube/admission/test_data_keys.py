"""Keys of ConfigMaps and Secrets."""

import base64

import pytest
from tests.support.api import ApiHarness, Data

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


REFUSED: dict[str, tuple[str, Data, str]] = {
    "another character": (CONFIG_MAPS, {"data": {"a/b": ""}}, 'data[a/b]: Invalid value: "a/b": a valid config key'),
    "a parent directory": (CONFIG_MAPS, {"data": {"..": ""}}, "data[..]: Invalid value: \"..\": must not be '..'"),
    "a prefix": (CONFIG_MAPS, {"data": {"..a": ""}}, "must not start with '..'"),
    "a long key": (SECRETS, {"data": {"a" * 254: ""}}, "must be no more than 253 characters"),
    "a key in both maps": (
        CONFIG_MAPS,
        {"data": {"a": ""}, "binaryData": {"a": ""}},
        "duplicate of key present in binaryData",
    ),
    "a login without a name": (SECRETS, {"type": "kubernetes.io/basic-auth"}, "data[username]: Required value"),
    "a key that is empty": (
        SECRETS,
        {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}},
        "data[ssh-privatekey]: Required value",
    ),
    "no registry": (
        SECRETS,
        {"type": "kubernetes.io/dockerconfigjson"},
        "data[.dockerconfigjson]: Required value",
    ),
    "a registry without JSON": (
        SECRETS,
        {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded("{")}},
        "<secret contents redacted>",
    ),
    "a token without an account": (
        SECRETS,
        {"type": "kubernetes.io/service-account-token"},
        "metadata.annotations[kubernetes.io/service-account.name]: Required value",
    ),
}


@pytest.mark.parametrize(("path", "fields", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_keys_are_rejected(path: str, fields: Data, message: str) -> None:
    answer = ApiHarness().request("POST", path, {"metadata": {"name": "a"}, **fields}, want=422)
    assert message in answer["message"]


def test_keys_of_a_registry_are_accepted() -> None:
    data = {".dockerconfigjson": encoded('{"auths": {}}')}
    ApiHarness().create(SECRETS, {"metadata": {"name": "a"}, "type": "kubernetes.io/dockerconfigjson", "data": data})
