"""Metadata of Kubernetes objects: names, uids, labels, owners and times."""

import re
from datetime import UTC, datetime
from typing import ClassVar

from moorage.common.caches import cached
from moorage.kube.api.struct import Int64, KubeStruct, once


class OwnerReference(KubeStruct, frozen=True):
    """The object that created this one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeStruct, frozen=True):
    """Identity and labels of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object. An object has at most one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(KubeStruct, frozen=True, dict=True, gc=True):
    """A complete object, as listed by the API server. ``dict=True`` allows cached properties."""

    holds_json: ClassVar[bool] = False
    """Whether parts of the object remain JSON until they are read. See :mod:`~moorage.kube.api.workloads`."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """Return ``metadata.name``."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Return ``metadata.namespace``, or empty for cluster-wide kinds."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Return ``metadata.uid``, which differs between two objects of the same name."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """Return ``metadata.labels``."""
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """Return ``metadata.annotations``."""
        return self.metadata.annotations

    @once
    def key(self) -> str:
        """``namespace/name``, or the name alone for cluster-wide kinds."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name

    @property
    def is_terminating(self) -> bool:
        """Whether the object is being deleted."""
        return self.metadata.deletion_timestamp is not None


class Condition(KubeStruct, frozen=True):
    """One line of a status: a type, whether it holds, and why."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0
    last_probe_time: str | None = None
    last_transition_time: str | None = None


_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799


@cached(1024)
def parse_time(text: str) -> float:
    """Turn an RFC 3339 time into seconds since the epoch."""
    match = _TIME.match(text)
    if match is None:
        raise _no_time(text)
    seconds, fraction, zone = match.groups()
    try:
        whole_seconds = datetime.fromisoformat(seconds + ("+00:00" if zone in "Zz" else zone)).timestamp()
    except ValueError as error:
        raise _no_time(text) from error
    return whole_seconds + (float(f"0.{fraction}") if fraction else 0.0)


def _no_time(text: str) -> ValueError:
    return ValueError(f"{text[:64]!r} is not a time; write it like 2026-01-31T12:00:00Z")


def format_time(moment: float) -> str:
    """Write a time as Kubernetes does, in whole seconds of UTC. Years are limited to 1 to 9999."""
    return _format_second(max(_FIRST_SECOND, min(int(moment), _LAST_SECOND)))


@cached(256)
def _format_second(moment: int) -> str:
    # Not strftime, which writes years before 1000 without zeros.
    return f"{datetime.fromtimestamp(moment, UTC).isoformat()[:19]}Z"


def format_micro_time(moment: float) -> str:
    """Write a time as leases and events do, with microseconds."""
    second, micro = divmod(int(moment * 1_000_000 + 0.5), 1_000_000)
    return f"{format_time(second)[:-1]}.{micro:06}Z"
