"""The API server's admission of single objects, for changes that are only tried out: validation, limits and quotas."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from moorage.cluster.apiserver.admission.chain import Admission
from moorage.cluster.apiserver.admission.limit_ranges import check_pod, limit_ranges
from moorage.cluster.apiserver.admission.pod_resources import default_limits
from moorage.cluster.apiserver.admission.quota_usage import PODS
from moorage.cluster.apiserver.admission.quotas import Ledger
from moorage.cluster.apiserver.storage.store import Entry, Store
from moorage.common.errors import ApiError, Forbidden
from moorage.kube.api.codec import to_data, without_nulls
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data
from moorage.kube.features import FeatureGates
from moorage.kube.resources import served


class AdmissionCheck:
    """Admits objects as the API server does.

    ``shaping`` has the limit ranges, quotas and runtime classes, and ``pods`` the pods that use the quotas.
    """

    def __init__(
        self, features: FeatureGates, shaping: Iterable[Mapping[str, Any]] = (), pods: Iterable[Pod] = ()
    ) -> None:
        self._store = Store()
        self._admission = Admission(self._store, features)
        for pod in pods:
            # Scopes of quotas depend on the QoS class, which typed pods do not have.
            data = to_data(pod)
            data.setdefault("status", {})["qosClass"] = pod.qos_class
            self._store.put(PODS, pod.key, data)
        for content in shaping:
            metadata = content["metadata"]
            namespace = "" if content["kind"] == "RuntimeClass" else f"{metadata.get('namespace') or 'default'}/"
            plural = {"LimitRange": "limitranges", "ResourceQuota": "resourcequotas"}.get(content["kind"])
            storage = plural or "runtimeclasses.node.k8s.io"
            self._store.put(storage, f"{namespace}{metadata['name']}", {**content, "metadata": dict(metadata)})

    def limits(self, namespace: str) -> bool:
        """Return whether a namespace has quotas or limit ranges."""
        return self._admission.quotas.limits(namespace) or bool(self.ranges(namespace))

    def ranges(self, namespace: str) -> list[Data]:
        """Return the limit ranges of a namespace."""
        return limit_ranges(self._store, namespace)

    def quotas(self, namespace: str) -> list[Ledger]:
        """Return the quotas of a namespace with their usage."""
        return self._admission.quotas.of_namespace(namespace)

    def create(self, content: Mapping[str, Any]) -> Entry:
        """Count a pod as it would be stored. Raise Forbidden if limit ranges or quotas do not allow it.

        Other rules are not checked: an object of a snapshot has only the fields that affect scheduling, and the classes
        that it names may not have been read.
        """
        resource = served(BY_NAME["Pod"])
        try:
            data = self._admit(content)
        except ApiError:
            data = _copy(content)
            ranges = self.ranges(str(data["metadata"].get("namespace") or "default"))
            default_limits(data["spec"], ranges)
            check_pod(resource, data, ranges)
        metadata = data["metadata"]
        entry = Entry(f"{metadata.get('namespace') or 'default'}/{metadata['name']}", 0, msgspec.json.encode(data))
        self._admission.quotas.check(resource, entry)
        self._store.put(PODS, entry.key, data)
        return entry

    def find_refusal(self, content: Mapping[str, Any]) -> str:
        """Return why an object is rejected by any rule, or empty if it is accepted. Quotas are not checked."""
        try:
            self._admit(content)
        except ApiError as error:
            return str(error)
        return ""

    def find_problem(self, content: Mapping[str, Any]) -> str:
        """Return why an object is invalid, or empty if it is valid.

        Rules that depend on other objects, such as priority classes, are not checked.
        """
        try:
            self._admit(content)
        except Forbidden:
            return ""
        except ApiError as error:
            return str(error)
        return ""

    def _admit(self, content: Mapping[str, Any]) -> Data:
        data = _copy(content)
        resource = served(BY_NAME[str(data["kind"])])
        if resource.namespaced:
            data.setdefault("metadata", {}).setdefault("namespace", "default")
        if resource.storage == PODS:
            data["status"] = {"phase": "Pending"}
        return self._admission.admit_new(resource, data)


def _copy(content: Mapping[str, Any]) -> Data:
    data: Data = msgspec.json.decode(msgspec.json.encode(without_nulls(content)))
    return data
