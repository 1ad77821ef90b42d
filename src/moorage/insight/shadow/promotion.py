"""`moorage promote`: activate the shadow configuration, or restore the previous one.

Configurations are in a file, or in a key of a ConfigMap. The previous one is stored next to it until it is restored.
"""

import asyncio
import stat
from collections.abc import Callable, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from moorage.common.errors import ConfigErrors, Conflict, InputError, MoorageError, NotFound
from moorage.common.user_files import not_writable, private_file
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from moorage.scheduler.config import completed_view, to_yaml
from moorage.scheduler.config.loading import read_config_text
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.config.yaml_text import read_document
from moorage.scheduler.wiring.policy import FIXED

PREVIOUS: Final = ".previous"
"""The suffix of the name of the previous configuration."""

LoadConfig = Callable[[str, str], SchedulerConfiguration]
"""Parses and checks a configuration. The arguments are its text and the name of its source."""


class StoredConfigs(Struct, frozen=True):
    """The active configuration, and the previous one if it can be restored."""

    name: str
    current: str
    previous: str | None = None


class Promotion(Struct, frozen=True):
    """The new configuration, its difference from the active one, and notes for the user."""

    current: str
    previous: str | None
    difference: str
    notes: tuple[str, ...] = ()


def promote_config(stored: StoredConfigs, shadow: str, shadow_name: str, load: LoadConfig) -> Promotion:
    """Check a shadow configuration and activate it. Raise InputError if it changes fields that need a restart."""
    text, notes = _keep_fixed_fields(stored, shadow, shadow_name, load)
    difference = _compare(stored.name, stored.current, shadow_name, text, load)
    return Promotion(text, stored.current, difference, notes)


def undo_promotion(stored: StoredConfigs, load: LoadConfig) -> Promotion:
    """Restore the previous configuration. Raise InputError if it does not exist."""
    previous_name = f"{stored.name}{PREVIOUS}"
    if stored.previous is None:
        problem = "nothing to undo: no configuration was promoted, or the promotion was already undone"
        raise InputError(stored.name, problem, hint=f"the previous configuration is saved as {previous_name}")
    _read_mapping(stored.previous, previous_name)
    try:
        return Promotion(
            stored.previous, None, _compare(stored.name, stored.current, previous_name, stored.previous, load)
        )
    except MoorageError as error:
        # It was active before, so it is restored in any case. Its plugins may be known only to the scheduler.
        note = f"restored without a check, because this configuration cannot be loaded here: {error}"
        lines = stored.current.splitlines(), stored.previous.splitlines()
        return Promotion(stored.previous, None, _print_difference(stored.name, previous_name, *lines), (note,))


def _compare(before_name: str, before: str, after_name: str, after: str, load: LoadConfig) -> str:
    """Compare the meaning of two configurations, not their text. Return an empty string if they are equivalent."""
    views = [
        to_yaml(completed_view(load(text, name))).splitlines()
        for name, text in ((before_name, before), (after_name, after))
    ]
    return _print_difference(before_name, after_name, *views)


def _print_difference(before_name: str, after_name: str, before: list[str], after: list[str]) -> str:
    return "\n".join(unified_diff(before, after, f"{before_name} (active)", after_name, lineterm="", n=3))


def _keep_fixed_fields(configs: StoredConfigs, shadow: str, name: str, load: LoadConfig) -> tuple[str, tuple[str, ...]]:
    """Add the fields of the active configuration to a shadow that a shadow cannot try, and therefore may omit.

    A shadow does not elect, serve or call extenders. Other leases and connections are rejected.
    """
    shadow_config, running_config = load(shadow, name), load(configs.current, configs.name)
    fields = {**FIXED, "extenders": "extenders"}
    differing = [
        key for field, key in fields.items() if getattr(shadow_config, field) != getattr(running_config, field)
    ]
    shadow_fields, before = _read_mapping(shadow, name), _read_mapping(configs.current, configs.name)
    if own := [key for key in differing if key in shadow_fields and key != "extenders"]:
        problem = f"{', '.join(own)} differs from {configs.name}, and cannot change while a scheduler runs"
        raise InputError(name, problem, hint=f"omit {', '.join(own)}: the value of {configs.name} is kept")
    carried = {key: before[key] for key in differing if key in before and key not in shadow_fields}
    if not carried:
        return shadow, ()
    text = f"{shadow.rstrip()}\n{yaml.safe_dump(carried, sort_keys=False)}"
    try:
        is_same = _read_mapping(text, name) == {**shadow_fields, **carried}
    except MoorageError:
        is_same = False
    if not is_same:  # JSON, or YAML to which nothing can be appended
        text = yaml.safe_dump({**shadow_fields, **carried}, sort_keys=False)
    load(text, name)
    return text, (f"{', '.join(carried)} of {configs.name} is kept",)


def _read_mapping(text: str, name: str) -> dict[str, Any]:
    data, repeated = read_document(text, name)
    if repeated or not isinstance(data, dict):
        raise ConfigErrors(repeated) if repeated else InputError(name, "not a configuration")
    return data


class ConfigFile:
    """A file, and next to it FILE.previous. The target of a link is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous = path.with_name(path.name + PREVIOUS)

    def read(self) -> StoredConfigs:
        """Read both files."""
        previous = read_config_text(self._previous) if self._previous.exists() else None
        return StoredConfigs(str(self._path), read_config_text(self._path), previous)

    def write(self, current: str, previous: str | None) -> None:
        """Replace both files, the previous one first, so that one of the two is always the active configuration."""
        if previous is not None:
            _replace(self._previous, previous, like=self._path)
        _replace(self._path.resolve(), current, like=self._path)
        if previous is None:
            self._previous.unlink(missing_ok=True)


def _replace(path: Path, text: str, *, like: Path) -> None:
    """Write a file atomically: readers never get an incomplete file."""
    try:
        with private_file(path, stat.S_IMODE(like.stat().st_mode)) as file:
            file.write(text.encode())
    except OSError as error:
        hint = "a mounted ConfigMap is read-only: write --config-map NAMESPACE/NAME" if path.is_symlink() else ""
        raise not_writable(path, error, hint=hint) from error


class ConfigMapKey:
    """A key of a ConfigMap, and next to it KEY.previous. One request writes both, based on the version read."""

    def __init__(self, connection: Connection, namespace: str, name: str, key: str) -> None:
        self._connection = connection
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._location = f"configmap {namespace}/{name}"
        self._key = key
        self._version = ""
        self.data: Mapping[str, str] = {}

    def read(self) -> StoredConfigs:
        """Read the ConfigMap."""
        try:
            content = msgspec.json.decode(asyncio.run(self._ask("GET", b"")))
        except NotFound as error:
            hint = "write --config-map NAMESPACE/NAME, such as kube-system/moorage"
            raise InputError(self._location, "the ConfigMap does not exist", hint=hint) from error
        self.data, self._version = content.get("data") or {}, content["metadata"]["resourceVersion"]
        location = f"{self._location}, {self._key}"
        return StoredConfigs(location, self.value(self._key), self.data.get(self._key + PREVIOUS))

    def value(self, key: str) -> str:
        """Return the value of a key. Raise InputError if the key is missing."""
        if key not in self.data:
            raise InputError(self._location, f"no key {key!r}", hint=f"its keys: {', '.join(self.data) or 'none'}")
        return self.data[key]

    def write(self, current: str, previous: str | None) -> None:
        """Replace both keys, unless another client was faster."""
        data = {self._key: current, self._key + PREVIOUS: previous}
        body = msgspec.json.encode({"metadata": {"resourceVersion": self._version}, "data": data})
        try:
            asyncio.run(self._ask("PATCH", body))
        except Conflict as error:
            hint = "check it and try again"
            raise InputError(self._location, "the ConfigMap changed concurrently", hint=hint) from error

    async def _ask(self, method: str, body: bytes) -> bytes:
        async with ApiClient(self._connection) as client:
            return await client.request(method, self._path, body, MERGE_PATCH)
