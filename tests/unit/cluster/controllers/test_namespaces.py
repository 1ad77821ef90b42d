import pytest
from tests.support.reconciling import describe, make

from moorage.cluster.controllers.actions import Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.namespaces import AccountController, RootAuthorityController
from moorage.common.clock import VirtualClock
from moorage.kube.api.cluster import ConfigMap, Namespace, ServiceAccount

SHOP = make(Namespace, "shop")
DOOMED = make(Namespace, "shop", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
CASES = {
    "the default account is created": ([SHOP], ["create ServiceAccount default"]),
    "an existing account is unchanged": ([SHOP, make(ServiceAccount, "default")], []),
    "other accounts do not count": ([SHOP, make(ServiceAccount, "robot")], ["create ServiceAccount default"]),
    "a terminating namespace gets no account": ([DOOMED], []),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_every_namespace_has_a_default_account(objects: list[Namespace | ServiceAccount], want: list[str]) -> None:
    assert describe(AccountController(VirtualClock()).reconcile("shop", InformerCache(objects))) == want


CA = "the authority"
SOURCE = make(
    ConfigMap, "extension-apiserver-authentication", metadata={"namespace": "kube-system"}, data={"client-ca-file": CA}
)
TOLD = make(ConfigMap, "kube-root-ca.crt", data={"ca.crt": CA})
SPOILT = make(ConfigMap, "kube-root-ca.crt", data={"ca.crt": "another", "more": "x"})
AUTHORITIES = {
    "the root CA is published": ([SHOP, SOURCE], ["create ConfigMap kube-root-ca.crt"]),
    "an up-to-date copy is unchanged": ([SHOP, SOURCE, TOLD], []),
    "a changed copy is restored": ([SHOP, SOURCE, SPOILT], ["change kube-root-ca.crt"]),
    "a terminating namespace gets no copy": ([DOOMED, SOURCE], []),
    "a server without TLS has no root CA": ([SHOP], []),
}


@pytest.mark.parametrize(("objects", "want"), AUTHORITIES.values(), ids=AUTHORITIES)
def test_every_namespace_gets_the_root_ca(objects: list[Namespace | ConfigMap], want: list[str]) -> None:
    assert describe(RootAuthorityController(VirtualClock()).reconcile("shop", InformerCache(objects))) == want


def test_root_ca_content_is_restored() -> None:
    (patch,) = RootAuthorityController(VirtualClock()).reconcile("shop", InformerCache([SHOP, SOURCE, SPOILT]))
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"ca.crt": CA, "more": None}}


def test_new_root_ca_affects_every_namespace() -> None:
    cache = InformerCache([SHOP, make(Namespace, "office"), SOURCE])
    assert sorted(RootAuthorityController(VirtualClock()).affected(SOURCE, cache)) == ["office", "shop"]
    assert list(RootAuthorityController(VirtualClock()).affected(TOLD, cache)) == ["shop"]
    assert list(RootAuthorityController(VirtualClock()).affected(make(ConfigMap, "other"), cache)) == []
