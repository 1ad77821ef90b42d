"""Scheduler extenders over HTTP: the complete protocol, as a client."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from moorage.common.errors import ExtenderError, ServiceError, describe_decode_error
from moorage.kube.api.codec import UNREADABLE, convert
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.originals import keep_original, whole
from moorage.kube.api.pod import Pod
from moorage.kube.http.pool import WriteGate
from moorage.kube.http.proxies import redacted
from moorage.kube.http.tls import ClientTls, Pem
from moorage.kube.http.web_service import WebService, web_address
from moorage.scheduler.config.types import ExtenderConfig, ExtenderTLS
from moorage.scheduler.engine.extender import Filtered
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.victims import Victims

DEFAULT_TIMEOUT: Final = 5.0
T = TypeVar("T")


class HttpExtender:
    """A web service that extends scheduling; the engine's ``Extender``."""

    def __init__(self, config: ExtenderConfig, gate: WriteGate | None = None) -> None:
        self.name = redacted(config.url_prefix)
        self.is_ignorable = config.ignorable
        self.weight = config.weight
        self.is_filter = bool(config.filter_verb)
        self.is_prioritizer = bool(config.prioritize_verb)
        self.is_binder = bool(config.bind_verb)
        self._config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._timeout = config.http_timeout.seconds or DEFAULT_TIMEOUT
        address = web_address(config.url_prefix, "extenders[].urlPrefix", "http://extender.example:8888/scheduler")
        self._service = WebService(
            config.url_prefix,
            seconds=self._timeout,
            tls=_read_tls(config) if address.scheme == "https" else None,
            server_name=config.tls_config.server_name if config.tls_config else "",
            where=f"extender {self.name}",
            gate=gate,
        )

    def __repr__(self) -> str:
        return f"HttpExtender({self.name})"

    def close(self) -> None:
        """Close all connections."""
        self._service.close()

    def is_interested_in(self, pod: Pod) -> bool:
        """Return whether a pod requests a resource that the extender manages; without managed resources, always."""
        if not self._managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            not self._managed.isdisjoint(amounts)
            for container in containers
            for amounts in (container.resources.requests, container.resources.limits)
        )

    def handles_preemption_for(self, pod: Pod) -> bool:
        """Return whether the extender handles evictions for this pod."""
        return bool(self._config.preempt_verb) and self.is_interested_in(pod)

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Filtered:
        """Request the feasible nodes."""
        answer = await self._call(self._config.filter_verb, self._arguments(pod, nodes))
        if problem := answer.get("error"):
            raise ExtenderError(str(problem))
        failed_nodes = self._decode_part(dict[str, str], answer, "failednodes") or {}
        unresolvable = self._decode_part(dict[str, str], answer, "failedandunresolvablenodes") or {}
        names = self._decode_part(list[str], answer, "nodenames")
        if self._config.node_cache_capable and names is not None:
            return Filtered(tuple(dict.fromkeys(names)), failed_nodes, unresolvable)
        node_list = self._decode_part(dict[str, Any], answer, "nodes") or {}
        items = self._decode_part(list[Any], _fold(node_list), "items") or ()
        stand_ins = {node.name: node for node in map(self._node, items)}
        return Filtered(tuple(stand_ins), failed_nodes, unresolvable, stand_ins)

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
        """Request the scores of nodes, from 0 to 10."""
        body = await self._send(self._config.prioritize_verb, self._arguments(pod, nodes))
        entries = self._decode(list[dict[str, Any]] | None, body) or []
        folded = [_fold(entry) for entry in entries]
        return {str(entry.get("host", "")): self._score(entry.get("score", 0)) for entry in folded}

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], nodes: NodeTable
    ) -> Mapping[str, Victims]:
        """Request the nodes and victims that the extender accepts."""
        by_uid = self._config.node_cache_capable
        victims_by_node = {
            name: {
                "Pods": [{"UID": victim.uid} if by_uid else whole(victim) for victim in victims.pods],
                "NumPDBViolations": victims.violations,
            }
            for name, victims in candidates.items()
        }
        request = {
            "Pod": whole(pod),
            "NodeNameToVictims": None if by_uid else victims_by_node,
            "NodeNameToMetaVictims": victims_by_node if by_uid else None,
        }
        answer = await self._call(self._config.preempt_verb, request)
        accepted_victims = self._decode_part(dict[str, dict[str, Any]], answer, "nodenametometavictims") or {}
        return {name: self._find_agreed(name, _fold(meta), nodes) for name, meta in accepted_victims.items()}

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have the extender bind a pod."""
        request = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
        answer = await self._call(self._config.bind_verb, request)
        if problem := answer.get("error"):
            raise ExtenderError(str(problem))

    def _arguments(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, Any]:
        if self._config.node_cache_capable:
            return {"Pod": whole(pod), "Nodes": None, "NodeNames": [node.name for node in nodes]}
        node_list = {"metadata": {}, "items": [whole(info.node) for info in nodes]}
        return {"Pod": whole(pod), "Nodes": node_list, "NodeNames": None}

    def _find_agreed(self, name: str, meta: Mapping[str, Any], nodes: NodeTable) -> Victims:
        """Look up the pods an extender names by their uids."""
        info = nodes.find(name)
        if info is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        pods = []
        for entry in meta.get("pods") or ():
            uid = str(_fold(entry).get("uid", ""))
            pod = info.pods.get(uid)
            if pod is None:
                problem = f"claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not found on that node"
                raise ExtenderError(f"extender: {self.name} {problem}")
            pods.append(pod)
        return Victims(tuple(pods), self._score(meta.get("numpdbviolations", 0)))

    async def _call(self, verb: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return _fold(self._decode(dict[str, Any] | None, await self._send(verb, request)) or {})

    async def _send(self, verb: str, request: Mapping[str, Any]) -> bytes:
        at = f"with extender at URL {self._service.url}/{verb}"
        try:
            answer = await self._service.send("POST", f"/{verb}", msgspec.json.encode(request))
        except ServiceError as error:
            raise ExtenderError(f"failed {verb} {at}: {error}") from error
        if answer.status != 200:
            raise ExtenderError(f"failed {verb} {at}, code {answer.status}")
        return answer.body

    def _decode(self, kind: Any, body: bytes) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except UNREADABLE as error:
            raise ExtenderError(f"extender {self.name} returned an invalid response: {error}") from error

    def _decode_part(self, kind: type[T], answer: Mapping[str, Any], name: str) -> T | None:
        if answer.get(name) is None:
            return None
        try:
            return msgspec.convert(answer[name], kind)
        except msgspec.ValidationError as error:
            problem = f"{name}: {describe_decode_error(error)}"
            raise ExtenderError(f"extender {self.name} returned an invalid response: {problem}") from error

    def _node(self, content: Any) -> Node:
        try:
            node = convert(Node, content)
        except msgspec.ValidationError as error:
            raise ExtenderError(
                f"extender {self.name} returned an invalid node: {describe_decode_error(error)}"
            ) from error
        if self._config.prioritize_verb:
            # The node is scored in the version that the extender returned.
            keep_original(node, msgspec.Raw(msgspec.json.encode(content)))
        return node

    def _score(self, content: Any) -> int:
        if isinstance(content, int):
            return content
        raise ExtenderError(f"extender {self.name} returned {content!r} instead of an integer")


def extender_demands(extenders: Iterable[ExtenderConfig]) -> set[str]:
    """Return the kinds of complete objects that some extender receives: pending pods, pods on nodes, nodes."""
    configs = tuple(extenders)
    demands = {
        "pods": any(c.filter_verb or c.prioritize_verb or c.preempt_verb for c in configs),
        "pods on nodes": any(c.preempt_verb and not c.node_cache_capable for c in configs),
        "nodes": any((c.filter_verb or c.prioritize_verb) and not c.node_cache_capable for c in configs),
    }
    return {name for name, is_sent in demands.items() if is_sent}


def full_object_predicates(extenders: Iterable[ExtenderConfig]) -> dict[type[KubeObject], Callable[[Any], bool]]:
    """Return which objects must be kept in the API's version, because some extender receives complete objects.

    Extenders that receive names only need just the texts of pending pods. The texts of all pods are kept only for an
    extender without a node cache that has a preempt verb, and those of nodes only for one without a node cache.
    """
    demands = extender_demands(extenders)
    sends_victims = "pods on nodes" in demands
    predicates: dict[type[KubeObject], Callable[[Any], bool]] = {}
    if "pods" in demands:
        predicates[Pod] = lambda pod: sends_victims or not pod.node_name
    if "nodes" in demands:
        predicates[Node] = lambda _node: True
    return predicates


def _fold(content: Any) -> dict[str, Any]:
    """Return a JSON object with its keys in lower case: extenders are written in Go, which ignores the case."""
    return {key.lower(): item for key, item in content.items()} if isinstance(content, dict) else {}


def _read_tls(config: ExtenderConfig) -> ClientTls:
    """Return the TLS settings for an extender. As upstream: enableHTTPS without an authority verifies nothing."""
    tls = config.tls_config or ExtenderTLS()
    has_authority = bool(tls.ca_data or tls.ca_file)
    return ClientTls(
        f"extender {redacted(config.url_prefix)}: tlsConfig",
        authority=_pem(tls.ca_data, tls.ca_file),
        certificate=_pem(tls.cert_data, tls.cert_file),
        key=_pem(tls.key_data, tls.key_file),
        verifies=not tls.insecure and (has_authority or not config.enable_https),
    )


def _pem(data: bytes | None, file: str) -> Pem | None:
    return data or (Path(file) if file else None)
