"""/statusz and /flagz: a text for people, or a document for programs that request one in their Accept header."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from moorage.common.version import KUBERNETES, version_info
from moorage.kube.api.meta import format_time
from moorage.kube.http.messages import Headers, HttpRequest, Reply
from moorage.scheduler.config import to_yaml
from moorage.scheduler.daemon.flags.parsing import COMMAND, FlagValues
from moorage.scheduler.daemon.flags.table import CERTIFICATES, FLAGS, GATES, INTEGERS, MAP, TEXTS, Flag, shown
from moorage.scheduler.daemon.serving.routing import text_reply

WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
JSON: Final = "application/json"
YAML: Final = "application/yaml"
ACCEPTED: Final = f"only the following media types are accepted: {JSON}, {YAML}, text/plain"


class ZPage(Struct, frozen=True):
    """A page as text and as a document."""

    kind: str
    lines: tuple[str, ...]
    content: Mapping[str, Any]

    def answer(self, request: HttpRequest) -> Reply:
        """Respond in the first supported form of the Accept header."""
        for media_type, parameters in _asked_for(request.header(b"accept")):
            if media_type in ("*/*", "text/*", "text/plain"):
                return text_reply("\n".join(("", f"{COMMAND} {self.kind.lower()}", WARNING, *self.lines, "")))
            target = parameters.get("as"), parameters.get("g")
            if media_type in (JSON, YAML) and target == (self.kind, GROUP) and parameters.get("v") in VERSIONS:
                return self._document(media_type, parameters["v"])
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        problem = {"message": ACCEPTED, "reason": "NotAcceptable", "code": 406}
        return Reply(406, json.dumps({**status, **problem}, indent=2).encode())

    def _document(self, media_type: str, version: str) -> Reply:
        api_version = f"{GROUP}/{version}"
        document = {"kind": self.kind, "apiVersion": api_version, "metadata": {"name": COMMAND}, **self.content}
        body = json.dumps(document, indent=2) if media_type == JSON else to_yaml(document)
        headers: Headers = ()
        if version != VERSIONS[0]:
            page = self.kind.lower()
            text = f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
            headers = (("Warning", text),)
        return Reply(200, body.encode(), f"{media_type};g={GROUP};v={version};as={self.kind}", headers)


def flagz_values(values: FlagValues) -> dict[str, str]:
    """Return every flag with its value, sorted, in Go's spelling: lists of any type are in brackets."""
    return {name: _flagz_value(FLAGS[name], values[name]) for name in sorted(values)}


def _flagz_value(flag: Flag, value: Any) -> str:
    if flag.kind is GATES:
        # Upstream puts the component before each gate, and for the default one that is nothing.
        assignments = [item.strip() for text in value for item in text.split(",")]
        return ",".join(item if ":" in item else f":{item}" for item in assignments if item)
    return f"[{shown(value)}]" if flag.kind in (TEXTS, INTEGERS, MAP, CERTIFICATES) else shown(value)


def flagz(flags: FlagValues) -> ZPage:
    """Show every flag with its value."""
    values = flagz_values(flags)
    return ZPage("Flagz", tuple(f"{name}={value}" for name, value in values.items()), {"flags": values})


def statusz(began: float, seconds_up: float, release: str, paths: list[str]) -> ZPage:
    """Show start time, version, emulated version and paths."""
    lasted = int(seconds_up)
    minutes, seconds = divmod(lasted, 60)
    hours, minutes = divmod(minutes, 60)
    compiler, binary = version_info()["compiler"], KUBERNETES.removeprefix("v")
    lines = (
        "",
        f"Started: {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime(began))}",
        f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
        # Where kube-scheduler names the version of Go; clients know the field, so the document keeps its name.
        f"Go version: {compiler}",
        f"Binary version: {binary}",
        f"Emulation version: {release}",
        f"Paths: {' '.join(paths)}",
    )
    versions = {"goVersion": compiler, "binaryVersion": binary, "emulationVersion": release}
    times = {"startTime": format_time(int(began)), "uptimeSeconds": lasted}
    return ZPage("Statusz", lines, {**times, **versions, "paths": paths})


def listed_paths(paths: Iterable[str]) -> list[str]:
    """Return the top-level paths, sorted, without /statusz itself."""
    return sorted(path for path in paths if path.count("/") == 1 and path != "/statusz")


def _asked_for(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield media_type, {name.strip(): value.strip() for name, _, value in pairs}
