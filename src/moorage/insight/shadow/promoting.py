"""`moorage promote`: activate the shadow configuration, or restore the previous one.

Configurations are in a file, or in a key of a ConfigMap; the previous one is stored next to it until it is restored.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import yaml
from msgspec import Struct

from moorage.common.errors import ConfigErrors, Conflict, InputError, MoorageError, NotFound
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from moorage.scheduler.config import completed_view, to_yaml
from moorage.scheduler.config.documents import read_document
from moorage.scheduler.config.loading import read_config_text
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.wiring.policy import FIXED

PREVIOUS: Final = ".previous"
"""The suffix of the name of the former configuration."""

LoadConfig = Callable[[str, str], SchedulerConfiguration]
"""Reads a configuration from its text, and checks it; the second is where it is from."""


class KeptConfigs(Struct, frozen=True):
    """The active configuration of a location, and the previous one if it can be restored."""

    name: str
    current: str
    previous: str | None = None


class Place(Protocol):
    """The location of the active configuration, with the previous one next to it."""

    def read(self) -> KeptConfigs:
        """Read both."""
        ...

    def write(self, current: str, previous: str | None) -> None:
        """Replace both at once; ``None`` removes the former one."""
        ...


class Promotion(Struct, frozen=True):
    """The new configuration, and its difference from the active one; read ``notes`` before."""

    current: str
    previous: str | None
    difference: str
    notes: tuple[str, ...] = ()


def promotion(kept: KeptConfigs, shadow: str, shadow_name: str, load: LoadConfig) -> Promotion:
    """Check a shadow configuration and activate it; raise InputError if it changes fields that need a restart."""
    text, notes = _with_carried(kept, shadow, shadow_name, load)
    return Promotion(text, kept.current, difference(kept.name, kept.current, shadow_name, text, load), notes)


def undoing(kept: KeptConfigs, load: LoadConfig) -> Promotion:
    """Restore the former configuration; raise InputError if it does not exist."""
    if kept.previous is None:
        problem = "there is nothing to undo: nothing was promoted, or that has been taken back"
        raise InputError(kept.name, problem, hint=f"the previous one is saved as {kept.name}{PREVIOUS}")
    former = f"{kept.name}{PREVIOUS}"
    load(kept.previous, former)
    return Promotion(kept.previous, None, difference(kept.name, kept.current, former, kept.previous, load))


def difference(before_name: str, before: str, after_name: str, after: str, load: LoadConfig) -> str:
    """Compare what two configurations mean, not how they are written; "" if they mean the same."""
    try:
        old = _lines(load(before, before_name))
    except MoorageError:  # the active configuration is invalid, so only its text can be compared
        old, new = before.splitlines(), after.splitlines()
    else:
        new = _lines(load(after, after_name))
    return "\n".join(unified_diff(old, new, f"{before_name} (in charge)", after_name, lineterm="", n=3))


def _lines(config: SchedulerConfiguration) -> list[str]:
    return to_yaml(completed_view(config)).splitlines()


def _with_carried(configs: KeptConfigs, shadow: str, name: str, load: LoadConfig) -> tuple[str, tuple[str, ...]]:
    """Add lease and connection of the active configuration to a shadow, which would otherwise use another lease.

    A shadow neither elects nor serves, so it may omit them; different settings are rejected.
    """
    shadow_config = load(shadow, name)
    try:
        running = load(configs.current, configs.name)
    except MoorageError:
        return shadow, (f"{configs.name} cannot be promoted: it changes fields that need a restart",)
    differing = [key for field, key in FIXED.items() if getattr(shadow_config, field) != getattr(running, field)]
    if not differing:
        return shadow, ()
    shadow_fields, before = _mapping(shadow, name), _mapping(configs.current, configs.name)
    if own := [key for key in differing if key in shadow_fields]:
        problem = f"{', '.join(own)} is not as in {configs.name}, and cannot change while a scheduler runs"
        raise InputError(name, problem, hint=f"leave {', '.join(own)} out: that of {configs.name} is kept")
    carried = {key: before[key] for key in differing if key in before}
    text = f"{shadow.rstrip()}\n{yaml.safe_dump(carried, sort_keys=False)}"
    try:
        is_same = _mapping(text, name) == {**shadow_fields, **carried}
    except MoorageError:
        is_same = False
    if not is_same:  # JSON, or written so that nothing can be put behind it
        text = yaml.safe_dump({**shadow_fields, **carried}, sort_keys=False)
    load(text, name)
    return text, (f"{', '.join(carried)} of {configs.name} is kept",)


def _mapping(text: str, name: str) -> dict[str, Any]:
    data, repeated = read_document(text, name)
    if repeated or not isinstance(data, dict):
        raise ConfigErrors(repeated) if repeated else InputError(name, "not a configuration")
    return data


class FilePlace:
    """A file, and next to it FILE.previous. A file that is a link stays one: its target is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous = path.with_name(path.name + PREVIOUS)

    def read(self) -> KeptConfigs:
        """Read both files."""
        previous = read_config_text(self._previous) if self._previous.exists() else None
        return KeptConfigs(str(self._path), read_config_text(self._path), previous)

    def write(self, current: str, previous: str | None) -> None:
        """Replace both files, the previous one first, so that one of the two is always the active configuration."""
        if previous is not None:
            _replace(self._previous, previous, like=self._path)
        _replace(self._path.resolve(), current, like=self._path)
        if previous is None:
            self._previous.unlink(missing_ok=True)


def _replace(path: Path, text: str, *, like: Path) -> None:
    """Write a file atomically: readers that follow it never see half of it."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(like, name)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        hint = "a mounted ConfigMap is read-only: write --config-map NAMESPACE/NAME" if path.is_symlink() else ""
        raise InputError(str(path), f"cannot write: {error.strerror}", hint=hint) from error


class ConfigMapPlace:
    """A key of a ConfigMap, and next to it KEY.previous; one request writes both, based on the version read."""

    def __init__(self, connection: Connection, namespace: str, name: str, key: str) -> None:
        self._connection = connection
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._where = f"configmap {namespace}/{name}"
        self._key = key
        self._version = ""
        self.data: Mapping[str, str] = {}

    def read(self) -> KeptConfigs:
        """Read the ConfigMap."""
        try:
            content = msgspec.json.decode(asyncio.run(self._ask("GET", b"")))
        except NotFound as error:
            hint = "write --config-map NAMESPACE/NAME, such as kube-system/moorage"
            raise InputError(self._where, "the ConfigMap does not exist", hint=hint) from error
        self.data, self._version = content.get("data") or {}, content["metadata"]["resourceVersion"]
        return KeptConfigs(f"{self._where}, {self._key}", self.value(self._key), self.data.get(self._key + PREVIOUS))

    def value(self, key: str) -> str:
        """Return the value of a key; raise InputError if the key is missing."""
        if key not in self.data:
            hint = f"it has {', '.join(self.data) or 'none at all'}"
            raise InputError(self._where, f"it has no key {key!r}", hint=hint)
        return self.data[key]

    def write(self, current: str, previous: str | None) -> None:
        """Replace both keys, unless another client was faster."""
        data = {self._key: current, self._key + PREVIOUS: previous}
        body = msgspec.json.encode({"metadata": {"resourceVersion": self._version}, "data": data})
        try:
            asyncio.run(self._ask("PATCH", body))
        except Conflict as error:
            raise InputError(
                self._where, "the ConfigMap changed concurrently", hint="check it and try again"
            ) from error

    async def _ask(self, method: str, body: bytes) -> bytes:
        async with ApiClient(self._connection) as client:
            return await client.request(method, self._path, body, MERGE_PATCH)
