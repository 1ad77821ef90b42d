import pytest
from tests.support.reconciling import describe, make

from moorage.cluster.controllers.actions import Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.namespaces import AccountController, RootAuthorityController
from moorage.kube.api.cluster import ConfigMap, Namespace, ServiceAccount

SHOP = make(Namespace, "shop")
DOOMED = make(Namespace, "shop", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
CASES = {
    "a namespace gets an account": ([SHOP], ["create ServiceAccount default"]),
    "one that has it is left alone": ([SHOP, make(ServiceAccount, "default")], []),
    "other accounts do not count": ([SHOP, make(ServiceAccount, "robot")], ["create ServiceAccount default"]),
    "one that is about to go needs none": ([DOOMED], []),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_every_namespace_has_a_default_account(objects: list[Namespace | ServiceAccount], want: list[str]) -> None:
    assert describe(AccountController().reconcile("shop", InformerCache(objects))) == want


CA = "the authority"
SOURCE = make(
    ConfigMap, "extension-apiserver-authentication", metadata={"namespace": "kube-system"}, data={"client-ca-file": CA}
)
TOLD = make(ConfigMap, "kube-root-ca.crt", data={"ca.crt": CA})
SPOILT = make(ConfigMap, "kube-root-ca.crt", data={"ca.crt": "another", "more": "x"})
AUTHORITIES = {
    "a namespace is told whom to trust": ([SHOP, SOURCE], ["create ConfigMap kube-root-ca.crt"]),
    "one that knows is left alone": ([SHOP, SOURCE, TOLD], []),
    "what somebody made of it is mended": ([SHOP, SOURCE, SPOILT], ["change kube-root-ca.crt"]),
    "one that is about to go needs nothing": ([DOOMED, SOURCE], []),
    "a server without a certificate has no authority": ([SHOP], []),
}


@pytest.mark.parametrize(("objects", "want"), AUTHORITIES.values(), ids=AUTHORITIES)
def test_every_namespace_gets_the_root_ca(objects: list[Namespace | ConfigMap], want: list[str]) -> None:
    assert describe(RootAuthorityController().reconcile("shop", InformerCache(objects))) == want


def test_root_ca_content_is_restored() -> None:
    (patch,) = RootAuthorityController().reconcile("shop", InformerCache([SHOP, SOURCE, SPOILT]))
    assert isinstance(patch, Patch)
    assert patch.patch == {"data": {"ca.crt": CA, "more": None}}


def test_new_root_ca_affects_every_namespace() -> None:
    cache = InformerCache([SHOP, make(Namespace, "office"), SOURCE])
    assert sorted(RootAuthorityController().affected(SOURCE, cache)) == ["office", "shop"]
    assert list(RootAuthorityController().affected(TOLD, cache)) == ["shop"]
    assert list(RootAuthorityController().affected(make(ConfigMap, "other"), cache)) == []
