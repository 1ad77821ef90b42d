"""The served resources: all built-in kinds, and custom resources."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import asdict

from moorage.kube.api.kinds import KINDS, Kind
from moorage.kube.features import FeatureGates


class ServedResource(Kind, frozen=True):
    """A served kind.

    ``storage`` is the key of its objects in the store: events are stored once and served in two groups.
    """

    storage: str = ""
    is_custom: bool = False
    converts: bool = False

    @property
    def has_status(self) -> bool:
        """Whether the status is a subresource."""
        return "status" in self.subresources

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the store."""
        return f"{namespace}/{name}" if self.namespaced else name


_VERSIONS: Final = Counter(kind.full_name for kind in KINDS)


def served(kind: Kind) -> ServedResource:
    """Return the served resource of a built-in kind."""
    storage = "events" if kind.plural == "events" else kind.full_name
    converts = _VERSIONS[kind.full_name] > 1 or storage != kind.full_name
    return ServedResource(**asdict(kind), storage=storage, converts=converts)


class Resources:
    """The current resources by path. Custom resources can be added and removed.

    Kinds of disabled features are not served.
    """

    def __init__(self, features: FeatureGates | None = None) -> None:
        self.features = features = features or FeatureGates()
        self._known: dict[tuple[str, str, str], ServedResource] = {}
        self._custom: dict[str, tuple[ServedResource, ...]] = {}
        for kind in (item for item in KINDS if item.is_served(features)):
            self._known[kind.group, kind.version, kind.plural] = served(kind)
        self.changes = 0

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource served under a path, if there is one."""
        return self._known.get((group, version, plural))

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._known.values())

    def find_kind(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource of a kind."""
        matches = (item for item in self if item.name == kind and item.api_version == api_version)
        return next(matches, None)

    def define(self, definition: str, resources: Iterable[ServedResource]) -> None:
        """Serve the versions of a custom resource definition, which replace its previous versions."""
        self.withdraw(definition)
        new_resources = tuple(resources)
        self._custom[definition] = new_resources
        self._known.update({(item.group, item.version, item.plural): item for item in new_resources})
        self.changes += 1

    def withdraw(self, definition: str) -> None:
        """Stop serving a custom resource."""
        for item in self._custom.pop(definition, ()):
            del self._known[item.group, item.version, item.plural]
        self.changes += 1

    def groups(self) -> dict[str, list[str]]:
        """Return the API groups and their versions, the core group first."""
        groups: dict[str, list[str]] = {}
        for item in self:
            versions = groups.setdefault(item.group, [])
            if item.version not in versions:
                versions.append(item.version)
        return groups
