"""A cluster for tests: API server, controllers, kubelets and scheduler, in virtual time or in real time.

::

    @in_virtual_time
    async def test_frontends_spread_over_zones() -> None:
        async with Cluster(nodes=6) as cluster:
            await cluster.apply("web.yaml")
            await cluster.wait_for(lambda: len(cluster.running("app=web")) == 6)

In virtual time (on the loop of :func:`in_virtual_time`), minutes pass in milliseconds and nothing leaves the process.
On any other loop, the cluster runs in real time over HTTP, and other programs can use ``cluster.kubeconfig``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from moorage.cluster import (
    Api,
    ApiServer,
    ClusterOptions,
    EmbeddedCluster,
    InProcessClient,
    KubeletPace,
    NodeShape,
    check_manifests,
    read_manifests,
)
from moorage.common.clock import SystemClock, VirtualClock
from moorage.common.virtual_time import VirtualLoop, run_virtual
from moorage.kube.api.documents import read_documents
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME, Pod
from moorage.kube.api.selectors import LabelSelector, label_matcher
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document, to_documents
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

P = ParamSpec("P")
K = TypeVar("K", bound=KubeObject)
AnyPlugin = TypeVar("AnyPlugin", bound=Plugin)
ManifestSource = str | Path | Mapping[str, Any]
"""A file, the text of manifests, or an object as plain data."""


def in_virtual_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test in virtual time: waiting takes no time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def run_test() -> None:
            await test(*args, **kwargs)

        run_virtual(run_test(), VirtualClock())

    return run


class Cluster:
    """A cluster that runs inside an ``async with`` block.

    ``plugins`` are enabled in addition to the default ones, unless a ``config`` (text or file) is given. Pass custom
    resource definitions that plugins watch as ``definitions``: they are created before the scheduler starts.
    ``feature_gates`` apply to the entire cluster, in the format of ``--feature-gates``.

    In every cycle, cached results that pods share (see ``Plugin.sign``) are compared with fresh ones: a plugin whose
    signature or ``depends_on`` is incomplete fails the test. ``cross_check=False`` saves that time.

    An exception that a plugin raises fails the test with its original traceback. A test of such a plugin passes
    ``raise_plugin_exceptions=False`` and reads the pod's condition and events instead.
    """

    def __init__(  # noqa: PLR0913 - all are named, and each has a default that most tests keep
        self,
        *,
        nodes: int = 10,
        shape: str = "",
        plugins: Iterable[type[Plugin]] = (),
        config: str | Path = "",
        definitions: Iterable[ManifestSource] = (),
        scheduler: bool = True,
        pace: KubeletPace | None = None,
        feature_gates: str = "",
        cross_check: bool = True,
        raise_plugin_exceptions: bool = True,
    ) -> None:
        features = FeatureGates.parse(feature_gates)
        policy = _policy(config, plugins, features) if scheduler else None
        defined = tuple(manifest for item in definitions for manifest in _manifests(item))
        self._options = ClusterOptions(
            nodes, NodeShape.parse(shape), pace or KubeletPace(), policy, defined, cross_check, features
        )
        self._raises = raise_plugin_exceptions
        self._ending = AsyncExitStack()
        self._embedded: EmbeddedCluster | None = None
        self.kubeconfig: dict[str, Any] = {}
        """A kubeconfig for other programs; empty in virtual time, where the cluster is unreachable from outside."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop):
            clock = loop.clock
            api = Api(clock, features=self._options.features)
            embedded = EmbeddedCluster(lambda: InProcessClient(api, clock), clock, self._options)
        else:
            server = await self._ending.enter_async_context(ApiServer(plain=True, features=self._options.features))
            self.kubeconfig = server.kubeconfig()
            credentials = FixedCredentials(f"Bearer {server.token}")
            connection = Connection(server.plain_url, "a cluster on this machine", credentials=credentials)
            embedded = EmbeddedCluster(lambda: ApiClient(connection), SystemClock(), self._options)
        self._embedded = await self._ending.enter_async_context(embedded)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failure = self._failure() if self._embedded is not None else None
        await self._ending.aclose()
        if failure is not None and kind is None:
            raise failure

    def _failure(self) -> BaseException | None:
        """Return the exception that ended a part of the cluster or a scheduling attempt."""
        scheduling = self.embedded.scheduling
        if scheduling is None:
            return self.embedded.failure()
        raised = scheduling.scheduler.profiles.first_exception() if self._raises else None
        return raised or self.embedded.failure() or scheduling.failure()

    @property
    def embedded(self) -> EmbeddedCluster:
        """The parts of the cluster, while it runs."""
        assert self._embedded is not None, "use it as: async with Cluster() as cluster"
        return self._embedded

    @property
    def client(self) -> ApiClient:
        """A client for the API of the cluster."""
        return self.embedded.client

    async def apply(self, *manifests: ManifestSource) -> list[dict[str, Any]]:
        """Create or update objects. Return the stored objects when the controllers have received them."""
        objects = await self.embedded.applier.apply(manifest for item in manifests for manifest in _manifests(item))
        await self.wait_for(lambda: all(map(self.embedded.manager.has_seen, objects)))
        return objects

    async def delete(self, *manifests: ManifestSource) -> None:
        """Delete objects that were applied."""
        await self.embedded.applier.delete(manifest for item in manifests for manifest in _manifests(item))

    async def reload(self, *, plugins: Iterable[type[Plugin]] = (), config: str | Path = "") -> None:
        """Reload the scheduler with other plugins or another configuration. Raise MoorageError if it is invalid.

        It works like a change of a configuration file or of a plugin's code: pending and binding pods are kept.
        """
        assert self.embedded.scheduling is not None, "this cluster has no scheduler"
        await self.embedded.scheduling.reload(_policy(config, plugins, self._options.features))

    async def fail_node(self, name: str) -> None:
        """Stop the heartbeats of a node, like a loss of power of its machine."""
        await self.embedded.fail_node(name)

    async def recover_node(self, name: str) -> None:
        """Resume the heartbeats of a node."""
        await self.embedded.fail_node(name, failed=False)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def wait_for(self, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Wait until a condition holds. Raise TimeoutError with the state of the pods if it does not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not condition():
            if (failure := self._failure()) is not None:
                raise failure
            if loop.time() >= end:
                raise TimeoutError(f"condition not met after {seconds} s; the pods are:\n{self.describe()}")
            await asyncio.sleep(0.02)

    def pods(self, labels: str = "", namespace: str = "default") -> list[Pod]:
        """Return the pods of a namespace with some labels (``app=web,tier=front``), sorted by name."""
        match_labels = dict(part.split("=", 1) for part in labels.split(",") if part)
        matcher = label_matcher(LabelSelector(match_labels=match_labels))
        pods = (pod for pod in self.embedded.cache[Pod].in_namespace(namespace) if matcher.matches(pod.labels))
        return sorted(pods, key=lambda pod: pod.name)

    def running(self, labels: str = "", namespace: str = "default") -> list[Pod]:
        """Return the running pods that are not terminating."""
        pods = self.pods(labels, namespace)
        return [pod for pod in pods if pod.status.phase == "Running" and not pod.is_terminating]

    def pod(self, name: str, namespace: str = "default") -> Pod | None:
        """Return a pod, or ``None``."""
        return self.embedded.cache[Pod].get(f"{namespace}/{name}")

    def nodes(self) -> list[Node]:
        """Return the nodes, sorted by name."""
        return sorted(self.embedded.cache[Node], key=lambda node: node.name)

    def objects(self, kind: type[K]) -> list[K]:
        """Return all objects of a kind that controllers or plugins watch, sorted by key."""
        return sorted(self._watched(kind), key=lambda obj: obj.key)

    def find(self, kind: type[K], name: str, namespace: str = "default") -> K | None:
        """Return an object of a kind that controllers or plugins watch, or ``None``."""
        keys = (f"{namespace}/{name}", name)
        return next((obj for obj in self._watched(kind) if obj.key in keys), None)

    def _watched(self, kind: type[K]) -> Iterable[K]:
        plural = find_kind(kind).plural
        if kind in self.embedded.manager.kinds:
            return self.embedded.cache[kind]
        if self.embedded.scheduling is not None and kind in self.embedded.scheduling.scheduler.objects.kinds():
            return self.embedded.scheduling.scheduler.objects[kind].list()
        raise LookupError(f"no controller or plugin watches {plural}; use `await cluster.client.list({kind.__name__})`")

    def plugin(self, kind: type[AnyPlugin], profile: str = DEFAULT_SCHEDULER_NAME) -> AnyPlugin:
        """Return a plugin instance of the scheduler."""
        assert self.embedded.scheduling is not None, "this cluster has no scheduler"
        plugins = self.embedded.scheduling.scheduler.runners[profile].profile.plugins
        for plugin in plugins.values():
            if isinstance(plugin, kind):
                return plugin
        raise LookupError(f"{kind.name} is not enabled in {profile}; enabled plugins: {', '.join(plugins)}")

    def why_pending(self, name: str, namespace: str = "default") -> str:
        """Return the scheduler's message for a pending pod, or empty without a message."""
        pod = self.pod(name, namespace)
        condition = pod.condition("PodScheduled") if pod is not None else None
        return condition.message if condition is not None else ""

    def describe(self) -> str:
        """Return the node and the state of every pod, one per line."""
        pods = sorted(self.embedded.cache[Pod], key=lambda pod: pod.key)
        lines = (
            f"  {pod.key}: {pod.status.phase} on {pod.node_name or 'no node'} "
            f"{self.why_pending(pod.name, pod.namespace) if not pod.node_name else ''}".rstrip()
            for pod in pods
        )
        return "\n".join(lines) or "  none"


def _policy(config: str | Path, plugins: Iterable[type[Plugin]], features: FeatureGates) -> Policy:
    enabled = tuple(plugins)
    return load_policy(collect_plugins(enabled), config, features=features, enabled=enabled)


def _manifests(source: ManifestSource) -> list[Document]:
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return read_manifests(source)
    contents = read_documents(source, source="the manifests") if isinstance(source, str) else [dict(source)]
    return check_manifests(to_documents(contents, source="the manifests"))
