"""An API server at the other end of a client, as a scheduler is connected to it."""

import socket

from moorage.common.clock import Clock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.informer import InformerObserver, Informers, OnChanges
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.config.types import ClientConnection
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.api_cluster import ApiCluster, Dispatcher, limit_of
from moorage.scheduler.wiring.parts import Keeps, kinds_of


class RemoteApi:
    """Writes, lists and watches through one client, and records events through another.

    Events have connections of their own: they must not delay a binding.
    """

    def __init__(
        self,
        client: ApiClient,
        event_client: ApiClient,
        clock: Clock,
        limits: ClientConnection,
        observer: InformerObserver | None = None,
    ) -> None:
        self.client = client
        self.hostname = socket.gethostname()
        self.recorder = EventRecorder(event_client, self.hostname, clock)
        dispatcher = Dispatcher(limit=limit_of(limits.qps, limits.burst))
        self.cluster = ApiCluster(client, dispatcher, self.recorder, clock, self._known)
        self.informers = Informers(client, (), lambda _kind, _changes: None)
        self._event_client = event_client
        self._observer = observer
        self._objects = Objects()

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Make the informers; the connection also looks up there what the scheduler knows already."""
        self._objects = objects
        self.informers = Informers(self.client, kinds_of(objects), on_changes, observer=self._observer, keeps=keeps)

    def relist(self, kind: Kind, key: str) -> None:
        """List a kind again, and deliver one object as if it were new."""
        self.informers.relist(kind, key)

    def _known(self, thing: KubeObject) -> KubeObject | None:
        """Find the version of an object that the informers last brought, if its kind is watched."""
        kind = type(thing)
        return self._objects[kind].find(thing.key) if kind in self._objects.kinds() else None

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self._event_client.close()
