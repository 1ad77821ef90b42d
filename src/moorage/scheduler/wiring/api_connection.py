"""The connection of a scheduler to a remote API server."""

import socket

from moorage.common.clock import Clock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.flow_control import make_rate_limit
from moorage.kube.client.informer import InformerObserver, Informers, OnChanges
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.config.types import ClientConnection
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.api_writer import ApiWriter
from moorage.scheduler.wiring.assembly import Keeps, find_watched_kinds


class ApiConnection:
    """Write, list and watch through one client; record events through another, so that they delay no bindings."""

    def __init__(
        self,
        client: ApiClient,
        event_client: ApiClient,
        clock: Clock,
        limits: ClientConnection,
    ) -> None:
        self.client = client
        self.hostname = socket.gethostname()
        self.recorder = EventRecorder(event_client, self.hostname, clock)
        dispatcher = Dispatcher(limit=make_rate_limit(limits.qps, limits.burst))
        self.cluster = ApiWriter(client, dispatcher, self.recorder, clock, self._find_cached)
        self.informers = Informers(client, (), lambda _kind, _changes: None)
        self._event_client = event_client
        self._objects = Objects()

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Create the informers; the writer looks up cached objects in their stores."""
        self._objects = objects
        self.informers = Informers(self.client, find_watched_kinds(objects), on_changes, observer=observer, keeps=keeps)

    def relist(self, kind: Kind, key: str) -> None:
        """List a kind again, and deliver one object as new."""
        self.informers.relist(kind, key)

    def _find_cached(self, obj: KubeObject) -> KubeObject | None:
        """Return the version of an object that the informers delivered last, if its kind is watched."""
        kind = type(obj)
        return self._objects[kind].find(obj.key) if kind in self._objects.kinds() else None

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self._event_client.close()
