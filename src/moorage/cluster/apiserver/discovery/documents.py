"""Discovery documents: API groups, versions and resources."""

from typing import Final

from moorage.cluster.apiserver.requests.request import JSON
from moorage.common.version import KUBERNETES, RELEASE
from moorage.kube.api.struct import Data
from moorage.kube.features import FeatureGates
from moorage.kube.resources import Resources, ServedResource


def server_version(features: FeatureGates) -> Data:
    """Return the content of ``/version``. An emulated release does not change the version of the binary."""
    major, minor = RELEASE.split(".")
    emulated, oldest = features.release.split("."), features.oldest.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": KUBERNETES,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
        "emulationMajor": emulated[0],
        "emulationMinor": emulated[1],
        "minCompatibilityMajor": oldest[0],
        "minCompatibilityMinor": oldest[1],
    }


AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SUBRESOURCE_KINDS: Final = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "finalize": ("", "v1", "Namespace", ("update",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}


class Discovery:
    """Describes the resources that are served now."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def answer(self, path: str, accept: str) -> tuple[Data, str] | None:
        """Return the document at a path and its content type, or ``None`` if there is no such document."""
        parts = path.strip("/").split("/")
        groups = self._resources.groups()
        wants_aggregated = "as=APIGroupDiscoveryList" in accept and "v=v2;" in accept.replace(" ", "") + ";"
        match parts:
            case ["api"] | ["apis"] if wants_aggregated:
                return self._aggregate(is_core=parts == ["api"]), AGGREGATED
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, JSON
            case ["apis"]:
                groups_data = [self._group(name) for name in groups if name]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups_data}, JSON
            case ["apis", group] if group in groups:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}, JSON
            case ["api", version] if version in groups[""]:
                return self._list("", version), JSON
            case ["apis", group, version] if version in groups.get(group, ()):
                return self._list(group, version), JSON
        return None

    def _group(self, name: str) -> Data:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in self._resources.groups()[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _of(self, group: str, version: str) -> list[ServedResource]:
        return [item for item in self._resources if (item.group, item.version) == (group, version)]

    def _list(self, group: str, version: str) -> Data:
        entries = [entry for item in self._of(group, version) for entry in _legacy_entries(item)]
        name = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries}

    def _aggregate(self, *, is_core: bool) -> Data:
        items: list[Data] = []
        for group, versions in self._resources.groups().items():
            if bool(group) is is_core:
                continue
            resources = {name: list(map(_aggregated_entry, self._of(group, name))) for name in versions}
            described = [{"version": name, "resources": resources[name], "freshness": "Current"} for name in versions]
            items.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": described})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _legacy_entries(item: ServedResource) -> list[Data]:
    own: Data = {
        "name": item.plural,
        "singularName": item.name.lower(),
        "namespaced": item.namespaced,
        "kind": item.name,
        "verbs": list(item.verbs),
    }
    entries = [{**own, **_aliases(item)}]
    for name in item.subresources:
        group, version, kind, verbs = _subresource(item, name)
        described = {"name": f"{item.plural}/{name}", "singularName": "", "namespaced": item.namespaced, "kind": kind}
        if (group, version) != (item.group, item.version):
            described |= {"group": group, "version": version}
        entries.append({**described, "verbs": list(verbs)})
    return entries


def _subresource(item: ServedResource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    return SUBRESOURCE_KINDS.get(name, (item.group, item.version, item.name, ("get", "patch", "update")))


def _aliases(item: ServedResource) -> Data:
    aliases = {"shortNames": list(item.short_names), "categories": list(item.categories)}
    return {name: words for name, words in aliases.items() if words}


def _aggregated_entry(item: ServedResource) -> Data:
    subresources: list[Data] = []
    for name in item.subresources:
        group, version, kind, verbs = _subresource(item, name)
        response_kind = {"group": group, "version": version, "kind": kind}
        subresources.append({"subresource": name, "responseKind": response_kind, "verbs": list(verbs)})
    return {
        "resource": item.plural,
        "responseKind": {"group": item.group, "version": item.version, "kind": item.name},
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.name.lower(),
        "verbs": list(item.verbs),
        **_aliases(item),
        **({"subresources": subresources} if subresources else {}),
    }
