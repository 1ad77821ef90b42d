"""What every namespace has from the start: a service account named ``default``, and whom to trust."""

from collections.abc import Iterable
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.kube.api.cluster import ConfigMap, Namespace, ServiceAccount
from moorage.kube.api.meta import KubeObject

DEFAULT: Final = "default"
AUTHORITY: Final = "kube-system/extension-apiserver-authentication"
"""Where the API server says which authority signed its certificate."""
ROOT: Final = "kube-root-ca.crt"
FILE: Final = "ca.crt"
ABOUT_ROOT: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class AccountController:
    """Makes the default service account of each namespace."""

    name = "service accounts"
    kinds = (Namespace, ServiceAccount)
    pause = 0.1

    def affected(self, thing: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a namespace when it comes, or its account goes."""
        return (thing.name,) if isinstance(thing, Namespace) else (thing.namespace,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Make the account if it is missing."""
        namespace = cache[Namespace].get(key)
        is_there = cache[ServiceAccount].get(f"{key}/{DEFAULT}") is not None
        if namespace is None or namespace.is_terminating or is_there:
            return ()
        return [Create(ServiceAccount, {"metadata": {"name": DEFAULT, "namespace": key}})]


class RootAuthorityController:
    """Publishes the authority of the API server into each namespace; a server without TLS has none."""

    name = "root authority"
    kinds = (Namespace, ConfigMap)
    pause = 0.1

    def affected(self, thing: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a namespace when it comes, or its copy is touched; at all of them when there is a new authority."""
        if isinstance(thing, Namespace):
            return (thing.name,)
        if thing.key == AUTHORITY:
            return [namespace.name for namespace in cache[Namespace]]
        return (thing.namespace,) if thing.name == ROOT else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Make the copy if it is missing, and mend it if it says something else."""
        namespace, source = cache[Namespace].get(key), cache[ConfigMap].get(AUTHORITY)
        authority = source.data.get("client-ca-file") if source is not None else None
        if namespace is None or namespace.is_terminating or not authority:
            return ()
        wanted, known = {FILE: authority}, cache[ConfigMap].get(f"{key}/{ROOT}")
        if known is None:
            metadata = {"name": ROOT, "namespace": key, "annotations": ABOUT_ROOT}
            return [Create(ConfigMap, {"metadata": metadata, "data": wanted})]
        if known.data == wanted:
            return ()
        surplus = dict.fromkeys(known.data.keys() - wanted.keys())
        return [Patch(known, {"data": {**wanted, **surplus}})]
