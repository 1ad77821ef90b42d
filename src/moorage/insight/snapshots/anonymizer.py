"""Rename all objects of a cluster consistently, so that their relations and their order remain intact.

Each text is renamed unless it is one of :mod:`.public_words`. Numbers, amounts and times remain where the schema has
such a type. Fields that the schema does not have, and data that it does not describe, are dropped.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from moorage.cluster import RUN_FOR
from moorage.insight.snapshots.expression_renaming import find_words, rename_expression
from moorage.insight.snapshots.public_words import PUBLIC_DOMAINS, PUBLIC_KEYS, PUBLIC_WORDS
from moorage.kube.schema import Field, Schema, find_kind_schema

NUMERIC: Final = frozenset(("int32", "int64", "double", "bool"))
COMPARISONS: Final = frozenset(("Gt", "Lt"))
SPLIT: Final = (re.compile("(__)"), re.compile("(/)"), re.compile("([,|])"))
"""Separators of zones, of domains and paths, and of lists. The parts are renamed one by one."""
PREFIXES: Final = re.compile(r"(requests\.|limits\.|attachable-volumes-csi-|vol-)(.+)")
SUFFIXES: Final = re.compile(
    r"(.+)(\.(?:(?:storageclass\.storage|deviceclass\.resource)\.k8s\.io|kubernetes\.io|k8s\.io))"
)
REGION: Final = re.compile(r"[a-z]+-[a-z]+\d+(?:-[a-z])?")
"""A zone or region of GCE. Volumes in several zones need the dashes."""
UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_AMOUNT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|[munkMGTPE]|[KMGTPE]i)?")
_COUNT: Final = re.compile(r"[+-]?\d+%?")
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_VERSION: Final = re.compile(r"(\d+\.\d+\.\d+)(?:-([\w.-]+))?(?:\+[\w.-]+)?")
_MEMBER: Final = re.compile(r"(.+)-(\d+)")
_HUGE_PAGES: Final = re.compile(r"(?:requests\.)?hugepages-\d+[KMGT]i")


class Anonymizer:
    """Renames the objects of a cluster.

    >>> names = Anonymizer([{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "db"}}])
    >>> names.name("db"), names.name("shop"), names.name("shop.kubernetes.io/db"), names.name("kube-system")
    ('x1', 'x2', 'x2.kubernetes.io/x1', 'kube-system')
    """

    def __init__(self, contents: Iterable[Any]) -> None:
        self._objects = list(contents)
        self._names: dict[str, str] = {}
        self._attributes: dict[str, set[int]] = {}
        self._device_texts: set[str] = set()
        self._words_in_expressions: set[str] = set()
        self._kept_numbers: frozenset[str] = frozenset(self._compared_numbers())
        self.changed_expressions: set[str] = set()
        """Expressions that compare letters. The result may change with the names."""
        self._is_collecting = True
        for content in self._objects:
            self._anonymize(content)
        # The order of names decides between equal devices, so the order of the new names is the same.
        width = len(str(len(self._names)))
        self._names = {text: f"x{number:0{width}}" for number, text in enumerate(sorted(self._names), 1)}
        self._numbers = {
            key: {number: rank for rank, number in enumerate(sorted(numbers), 1)}
            for key, numbers in self._attributes.items()
            if not self._words_in_expressions & {key, key.rpartition("/")[2]}
        }
        self._is_collecting = False
        for content in self._objects:
            self._register_members(content)

    def anonymized(self) -> list[Any]:
        """Return the objects with other names."""
        return [self._anonymize(content) for content in self._objects]

    def name(self, text: str) -> str:
        """Return the other name of a text."""
        if text in PUBLIC_WORDS or text in self._kept_numbers or _HUGE_PAGES.fullmatch(text):
            return text
        if text in self._names:
            return text if self._is_collecting else self._names[text]
        if REGION.fullmatch(text):
            return "-".join(map(self.name, text.split("-")))
        for separator in SPLIT:
            if separator.search(text):
                # An odd part is the separator itself.
                parts = enumerate(separator.split(text))
                return "".join(part if number % 2 else self.name(part) for number, part in parts)
        if affix := PREFIXES.fullmatch(text):
            return affix[1] + self.name(affix[2])
        if text not in PUBLIC_DOMAINS and (affix := SUFFIXES.fullmatch(text)):
            return self.name(affix[1]) + affix[2]
        self._names[text] = f"x{len(self._names) + 1}"
        return self._names[text]

    def _compared_numbers(self) -> Iterator[str]:
        """Find the numbers in labels and taints that selectors and tolerations compare by size."""
        mappings = [item for content in self._objects for item in _mappings(content)]
        keys = {item.get("key") for item in mappings if item.get("operator") in COMPARISONS}
        for item in mappings if keys else ():
            values = [value for key, value in item.items() if key in keys]
            values += [item.get("value"), *(item.get("values") or ())] if item.get("key") in keys else []
            yield from (value for value in values if isinstance(value, str) and _COUNT.fullmatch(value))

    def _anonymize(self, content: Any) -> Any:
        api_version, kind = content.get("apiVersion", ""), content.get("kind", "")
        schema = find_kind_schema(api_version, kind)
        if schema is None:
            raise ValueError(f"{kind} ({api_version}) cannot be anonymized: its schema is unknown")
        return {"apiVersion": api_version, "kind": kind, **self._walk(content, schema)}

    def _walk(self, content: Any, schema: Schema) -> Any:
        if not isinstance(content, dict):
            return None
        result: dict[str, Any] = {}
        for key, value in content.items():
            field = schema.field(key)
            if field is None or value is None:
                continue
            if field.shape == "list" and isinstance(value, list | tuple):
                result[key] = [self._single(item, field) for item in value]
            elif field.shape == "map" and isinstance(value, dict):
                result[key] = {self.name(item): self._entry(item, below, field) for item, below in value.items()}
            elif not field.shape:
                result[key] = self._single(value, field)
        return result

    def _entry(self, key: str, value: Any, field: Field) -> Any:
        """Return the value below a key that users choose."""
        if key in PUBLIC_KEYS and isinstance(value, str) and _COUNT.fullmatch(value):
            return value
        if key == RUN_FOR and isinstance(value, str) and _DURATION.fullmatch(value):
            return value
        if field.name == "attributes" and isinstance(value, dict):
            return self._attribute(key, value)
        return self._single(value, field)

    def _single(self, value: Any, field: Field) -> Any:
        if (below := field.schema) is not None:
            return self._walk(value, below)
        if isinstance(value, bool | int | float):
            return value
        if field.type in NUMERIC or field.type in ("raw", "json", "fields", "bytes") or not isinstance(value, str):
            return {} if field.type == "raw" else None
        if field.name == "driver":
            self._device_texts.add(value)
        pattern = {"quantity": _AMOUNT, "time": _TIME, "microtime": _TIME, "intorstring": _COUNT}.get(field.type)
        if pattern is not None and pattern.fullmatch(value):
            return value
        special = {"expression": self._expression, "generateName": self._stem, "resourceVersion": self._version}
        special |= dict.fromkeys(("image", "imageID", "names", "reference"), self._image)
        special |= dict.fromkeys(("uid", "shareID", "hostIP", "clusterIP"), self._identifier)
        return special.get(field.name, self._text)(value)

    def _text(self, text: str) -> str:
        return self._identifier(text) if UUID.fullmatch(text) else self.name(text)

    def _identifier(self, text: str) -> str:
        """Return another address or uid for one."""
        name = self.name(text)
        if self._is_collecting or name == text or not name[1:].isdecimal():
            return name
        if UUID.fullmatch(text):
            return f"00000000-0000-4000-8000-{int(name[1:]):012}"
        try:
            version = ip_address(text).version
        except ValueError:
            return name
        number = int(name[1:])
        return str(ip_address((0xC612 << 16) + number) if version == 4 else ip_address((0x20010DB8 << 96) + number))

    def _stem(self, text: str) -> str:
        return self.name(text.rstrip("-")) + "-" * text.endswith("-")

    def _version(self, text: str) -> str:
        return text if _COUNT.fullmatch(text) else self.name(text)

    def _image(self, text: str) -> str:
        # The tag `latest` remains, because it equals a missing tag.
        repository, colon, tag = text.rpartition(":")
        if not colon or "/" in tag:
            return self.name(text)
        return f"{self.name(repository)}:{tag if tag == 'latest' else self.name(tag)}"

    def _expression(self, text: str) -> str:
        if self._is_collecting:
            self._words_in_expressions |= find_words(text)
        texts = () if self._is_collecting else sorted(self._device_texts)
        expression, is_same = rename_expression(text, self.name, texts)
        if not is_same:
            self.changed_expressions.add(expression)
        return expression

    def _attribute(self, key: str, attribute: dict[str, Any]) -> dict[str, Any]:
        """Rename the values of a device's attribute; numbers that no expression reads become ranks."""
        renamed: dict[str, Any] = {}
        for kind, value in attribute.items():
            items = value if isinstance(value, list | tuple) else [value]
            if kind in ("int", "ints"):
                if self._is_collecting:
                    self._attributes.setdefault(key, set()).update(items)
                ranks = {} if self._is_collecting else self._numbers.get(key, {})
                items = [ranks.get(item, item) for item in items]
            elif kind in ("string", "strings"):
                self._device_texts.update(items)
                items = list(map(self.name, items))
            elif kind in ("version", "versions"):
                items = list(map(self._device_version, items))
            elif kind not in ("bool", "bools") or not all(isinstance(item, bool) for item in items):
                continue
            renamed[kind] = items if isinstance(value, list | tuple) else items[0]
        return renamed

    def _device_version(self, text: str) -> str:
        version = _VERSION.fullmatch(text)
        if version is None:
            return self.name(text)
        parts = [part if part.isdecimal() else self.name(part) for part in (version[2] or "").split(".") if part]
        return version[1] + ("-" + ".".join(parts) if parts else "")

    def _register_members(self, content: Any) -> None:
        """Name the pods of a StatefulSet and the claims of pods after their owners, as Kubernetes does."""
        if content["kind"] != "Pod":
            return
        name = content["metadata"]["name"]
        owners = content["metadata"].get("ownerReferences") or ()
        volumes = (content.get("spec") or {}).get("volumes") or ()
        member = _MEMBER.fullmatch(name)
        rename = partial(self._names.__setitem__)
        if member and any(owner["kind"] == "StatefulSet" for owner in owners):
            rename(name, f"{self.name(member[1])}-{member[2]}")
            for volume in volumes:
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim == f"{volume['name']}-{name}":
                    rename(claim, f"{self.name(volume['name'])}-{self.name(name)}")
        for volume in volumes:
            if volume.get("ephemeral"):
                rename(f"{name}-{volume['name']}", f"{self.name(name)}-{self.name(volume['name'])}")


def _mappings(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, dict):
        yield content
    if isinstance(content, dict | list | tuple):
        for item in content.values() if isinstance(content, dict) else content:
            yield from _mappings(item)
