"""Custom resources in cluster files: defaults and validation by their definitions, if any."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.discovery.custom_resources import DEFINITIONS, CustomResources, complete_definition
from moorage.cluster.apiserver.storage.store import Store
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, InputError, describe_decode_error
from moorage.kube.api.codec import convert, without_nulls
from moorage.kube.api.kinds import BY_TYPE, KINDS, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import Data
from moorage.kube.resources import Resources

DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
DEFAULT_NAMESPACE: Final = "default"


class CustomInput:
    """Collects the custom resources of an input and their definitions, in any order."""

    def __init__(self) -> None:
        self._objects: list[tuple[Data, str]] = []
        self._definitions: list[tuple[Data, str]] = []

    def add(self, content: Mapping[str, Any], title: str) -> None:
        """Accept an unprocessed object. ``title`` names it in messages."""
        # A copy, because completion changes the data.
        data: Data = msgspec.json.decode(msgspec.json.encode(without_nulls(content)))
        (self._definitions if kind_name(data) == DEFINITION else self._objects).append((data, title))

    def completed(self) -> tuple[tuple[Data, ...], tuple[Data, ...]]:
        """Return the objects with their defaults, and the definitions. Raise InputError if one is invalid."""
        store, resources = Store(), Resources()
        custom = CustomResources(store, resources)
        definition = resources.find_kind(*DEFINITION)
        assert definition is not None
        for data, title in self._definitions:
            try:
                complete_definition(definition, data, VirtualClock().now())
            except ApiError as error:
                raise InputError(title, str(error)) from error
            store.put(DEFINITIONS, str(data["metadata"]["name"]), data)
        for data, title in self._objects:
            resource = resources.find_kind(*kind_name(data))
            if resource is not None:
                try:
                    custom.complete(resource, data)
                except ApiError as error:
                    raise InputError(title, str(error)) from error
        return tuple(data for data, _ in self._objects), tuple(data for data, _ in self._definitions)


def kind_name(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return ``apiVersion`` and ``kind``."""
    return str(content["apiVersion"]), str(content["kind"])


def added_kinds() -> dict[tuple[str, str], Kind]:
    """Return the kinds that plugins have added by now, by ``apiVersion`` and ``kind``.

    Other views of built-in kinds, such as ``RawPod``, are omitted: their objects need no definition.
    """
    built_in = {(kind.api_version, kind.name) for kind in KINDS}
    kinds = {(kind.api_version, kind.name): kind for kind in BY_TYPE.values()}
    return {name: kind for name, kind in kinds.items() if name not in built_in}


def custom_object(kind: Kind, content: Mapping[str, Any]) -> KubeObject:
    """Return a custom resource as the struct of its kind; InputError if it does not fit the struct."""
    complete_content = with_namespace(kind, content)
    if not complete_content["metadata"].get("name"):
        raise InputError(f"a {kind.name} of the input, metadata.name", "the object has no name", hint="write one")
    try:
        return convert(kind.type, complete_content)
    except msgspec.ValidationError as error:
        title = f"{kind.name} {complete_content['metadata']['name']}"
        raise InputError(title, f"a plugin cannot read it: {describe_decode_error(error)}") from error


def with_namespace(kind: Kind, content: Mapping[str, Any]) -> Data:
    """Return a custom resource with its namespace, if its kind is namespaced."""
    metadata = {key: item for key, item in content["metadata"].items() if key != "namespace"}
    if kind.namespaced:
        metadata["namespace"] = content["metadata"].get("namespace") or DEFAULT_NAMESPACE
    return {**content, "metadata": metadata}


def define_kind(kind: Kind) -> Data:
    """Define a kind that a plugin lists but the input does not define. Its objects are not validated."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": DEFINITION[0],
        "kind": DEFINITION[1],
        "metadata": {"name": kind.full_name, "uid": f"uid-of-{kind.full_name}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
            "versions": [version],
        },
    }


def list_notes(custom: Iterable[Mapping[str, Any]], definitions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Report custom resources that no plugin reads, and custom resources accepted without validation."""
    defined = {
        (f"{spec['group']}/{version['name']}", str(spec["names"]["kind"]))
        for spec in (definition["spec"] for definition in definitions)
        for version in spec["versions"]
    }
    read, kind_counts = added_kinds(), Counter(map(kind_name, custom))
    problems = {
        "skipped, because no plugin uses them": [kind for kind in kind_counts if kind not in read],
        "not validated, because there is no CustomResourceDefinition": [
            kind for kind in kind_counts if kind in read and kind not in defined
        ],
    }
    return [
        f"{problem}: {', '.join(f'{kind_counts[kind]} {kind[1]}' for kind in kinds)}"
        for problem, kinds in problems.items()
        if kinds
    ]
