"""Requests and responses of the API, without HTTP, and the resource that a path refers to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from moorage.cluster.apiserver.users import ADMINISTRATOR, ApiUser
from moorage.kube.field_errors import unsupported_value
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.status_errors import bad_request, invalid_options, no_process, not_found, path_not_found

OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
INSIDE_OF_PODS: Final = {
    "log": "logs",
    "exec": "command to run",
    "attach": "process to attach to",
    "portforward": "port to forward",
    "proxy": "server to reach",
}
"""Subresources that need a real kubelet, and their names in messages."""
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. ``content_type`` and ``accept`` are the headers as sent."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = ""
    user_agent: str = ""
    user: ApiUser = ADMINISTRATOR

    def is_set(self, flag: str) -> bool:
        """Return whether a flag of the query is on; 400 for other values than on and off."""
        text = self.query.get(flag, "")
        if text in ("", "0", "false", "False", "f", "F", "FALSE"):
            return False
        if text in ("1", "true", "True", "t", "T", "TRUE"):
            return True
        raise bad_request(f"{flag}: {text!r} is neither true nor false")

    def number(self, name: str) -> int | None:
        """Return an integer parameter of the query; 400 if it is invalid or negative."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise bad_request(f"{name}: {text!r} is not a whole number of at least 0")
        return int(text)

    @property
    def options(self) -> str:
        """The kind of options that the query represents."""
        return OPTIONS.get(self.method, "CreateOptions")

    @property
    def is_dry_run(self) -> bool:
        """Whether the request is a dry run; 422 for values other than ``All``."""
        return is_dry_run(self.query.get("dryRun", ""), self.options)

    @property
    def field_validation(self) -> str:
        """The fieldValidation mode; 422 for unsupported modes."""
        text = self.query.get("fieldValidation", "")
        if text not in ("", "Ignore", "Strict", "Warn"):
            raise invalid_options(
                self.options, unsupported_value("fieldValidation", text, ("", "Ignore", "Strict", "Warn"))
            )
        return text

    @property
    def manager(self) -> str:
        """The field manager, or the name of the client program."""
        return self.query.get("fieldManager", "") or self.user_agent.partition("/")[0] or "unknown"


def is_dry_run(text: str, options: str) -> bool:
    """Read a dryRun directive; 422 for values other than ``All``."""
    if text not in ("", "All"):
        raise invalid_options(options, unsupported_value("dryRun", [text], ("All",)))
    return bool(text)


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response. kubectl prints the headers of its ``warnings``."""

    body: bytes
    status: int = 200
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Which objects a path names: one, all of a namespace, or all of a resource."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """Return the key of the object in the store."""
        return self.resource.key(self.namespace, self.name)


def parse_target(path: str, resources: Resources) -> Target:
    """Return the target of a path; 404 if nothing is served there."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, first, *rest]:
            return _target(resources, "", version, [first, *rest])
        case ["apis", group, version, first, *rest]:
            return _target(resources, group, version, [first, *rest])
    raise path_not_found()


def _target(resources: Resources, group: str, version: str, parts: list[str]) -> Target:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and resources.find(group, version, parts[2]) is not None:
        namespace, parts = parts[1], parts[2:]
    resource = resources.find(group, version, parts[0])
    if resource is None or len(parts) > 3 or "" in parts or (namespace and not resource.namespaced):
        raise path_not_found()
    name, subresource = (*parts[1:], "", "")[:2]
    if resource.storage == "pods" and subresource in INSIDE_OF_PODS:
        raise no_process(name, INSIDE_OF_PODS[subresource])
    if resource.is_custom and subresource in ("status", "scale") and subresource not in resource.subresources:
        raise not_found(resource, name)
    if subresource and subresource not in resource.subresources:
        raise path_not_found()
    if name and resource.namespaced and not namespace:
        raise path_not_found()
    return Target(resource, namespace, name, subresource)
