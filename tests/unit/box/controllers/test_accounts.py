import pytest
from tests.support.reconciling import make, said

from moorage.api.cluster import Namespace, ServiceAccount
from moorage.box.controllers.accounts import AccountController
from moorage.box.controllers.view import View

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
    assert said(AccountController().reconcile("shop", View(objects))) == want
