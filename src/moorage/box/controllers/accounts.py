"""Service accounts: every namespace has one named ``default``, which clients and manifests count on."""

from collections.abc import Iterable
from typing import Final

from moorage.api.cluster import Namespace, ServiceAccount
from moorage.api.meta import KubeObject
from moorage.box.controllers.actions import ControllerAction, Create
from moorage.box.controllers.view import View

DEFAULT: Final = "default"


class AccountController:
    """Makes the default service account of each namespace."""

    name = "service accounts"
    kinds = (Namespace, ServiceAccount)
    pause = 0.1

    def affected(self, thing: KubeObject, view: View) -> Iterable[str]:
        """Look at a namespace when it comes, or its account goes."""
        return (thing.name,) if isinstance(thing, Namespace) else (thing.namespace,)

    def reconcile(self, key: str, view: View) -> Iterable[ControllerAction]:
        """Make the account if it is missing."""
        namespace = view[Namespace].get(key)
        is_there = view[ServiceAccount].get(f"{key}/{DEFAULT}") is not None
        if namespace is None or namespace.is_terminating or is_there:
            return ()
        return [Create(ServiceAccount, {"metadata": {"name": DEFAULT, "namespace": key}})]
