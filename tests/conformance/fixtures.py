"""Read upstream's sample objects of every kind, and write them back: `python -m tests.conformance.fixtures`.

The Go module of the API types contains an object of each kind with all fields set, as JSON, YAML and protobuf, for the
current and some earlier releases. They are downloaded by exact version; none is stored here.

- JSON, YAML and protobuf decode to the same data, and no field is unknown to the embedded API server
- the embedded API server stores each object of a kind that it serves, and returns it unchanged
- the second server-side apply of an object changes nothing, not even the time of the first one
- structs decode each object of their kind without error, and every field that they have is encoded as it was
- fields that structs drop are listed in dropped_fields.txt: the scheduler does not read them
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from release.next_minor.modules import DownloadError, Version, fetch

from moorage.cluster.apiserver.conversions import from_stored, to_stored
from moorage.cluster.apiserver.requests.protobuf import decode_protobuf
from moorage.cluster.apiserver.writing.apply import ApplyRequest
from moorage.cluster.apiserver.writing.field_types import built_in_type
from moorage.cluster.apiserver.writing.managed_fields import Writing
from moorage.common.clock import VirtualClock
from moorage.common.version import NEWEST
from moorage.kube.api.codec import without_nulls
from moorage.kube.api.kinds import KINDS
from moorage.kube.api.struct import Data
from moorage.kube.features import RELEASES, FeatureGates
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.schema import find_kind_schema, unknown_fields

VERSIONS: Final = ("v0.37.1", "v0.38.0-alpha.2")
DIRECTORIES: Final = ("HEAD", "v1.37.0", "v1.36.0", "v1.35.0")
"""Directories of the module; fields that a later release removed are unknown in the older ones."""
DROPPED: Final = Path(__file__).with_name("dropped_fields.txt")
COMMON: Final = ("apiVersion", "kind", "metadata.managedFields", "metadata.selfLink")
"""Fields that every struct drops; the first two are determined by the type."""
STRUCTS: Final = {f"{kind.api_version}/{kind.name}": kind.type for kind in KINDS if kind.has_struct}


_RESOURCES: Final = Resources(
    FeatureGates({name: True for name, gate in RELEASES[NEWEST].items() if not gate.locked}, release=NEWEST)
)


class _Loader(yaml.CSafeLoader):
    """A loader that keeps times as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def check_directory(directory: Path, *, is_current: bool) -> tuple[list[str], set[str]]:
    """Check the objects of one release; return the problems and the fields that structs drop."""
    problems, dropped = list[str](), set[str]()
    for path in sorted(directory.glob("*.json")):
        if ".after_roundtrip." in path.name:
            continue
        obj = json.loads(path.read_bytes())
        if "apiVersion" not in obj:
            # Not an object, but the content of a request or response.
            continue
        name = f"{obj['apiVersion']}/{obj['kind']}"
        if yaml.load(path.with_suffix(".yaml").read_bytes(), _Loader) != obj:
            problems.append(f"{path.name}: YAML differs from JSON")
        schema = find_kind_schema(obj["apiVersion"], obj["kind"])
        if schema is not None:
            unknown = [*unknown_fields(obj, schema)]
            if is_current:
                problems += [f"{path.name}: unknown to the API server: {field}" for field in unknown]
            if not unknown and decode_protobuf(path.with_suffix(".pb").read_bytes()) != obj:
                problems.append(f"{path.name}: protobuf differs from JSON")
        resource = _RESOURCES.find_kind(obj["apiVersion"], obj["kind"])
        if resource is not None and is_current:
            problems += [f"{path.name}: {problem}" for problem in stored_problems(resource, obj)]
        if (kind := STRUCTS.get(name)) is not None:
            try:
                encoded = json.loads(msgspec.json.encode(msgspec.json.decode(path.read_bytes(), type=kind)))
            except msgspec.ValidationError as error:
                problems.append(f"{path.name}: not decoded: {error}")
                continue
            for field, problem in differences(obj, encoded, obj["kind"]):
                if problem:
                    problems.append(f"{path.name}: {field}: {problem}")
                elif is_current and field.partition(".")[2] not in COMMON:
                    dropped.add(field)
    return problems, dropped


def stored_problems(resource: ServedResource, obj: Data) -> Iterator[str]:
    """Store an object, and apply it twice without admission."""
    if from_stored(resource, to_stored(resource, obj)) != obj:
        yield "changes when it is stored"
    before, stored = Data(), Data()
    for seconds in range(2):
        # The API server drops nulls before it stores an object.
        before, desired = deepcopy(stored), without_nulls(to_stored(resource, deepcopy(obj)))
        kind = built_in_type(desired["apiVersion"], desired["kind"])
        assert kind is not None
        writing = Writing(resource, "fixtures", operation="Apply")
        request = ApplyRequest(writing, desired, kind, force=False, clock=VirtualClock(start=seconds))
        stored = request.change(stored) if stored else request.create()
    yield from (f"the second apply changes {path}" for path, _ in differences(before, stored, obj["kind"]))


def differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each field that changed; the problem of a dropped field is empty."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key}", ""
            else:
                yield from differences(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for old, new in zip(before, after, strict=True):
            yield from differences(old, new, f"{path}[]")
    elif before != after:
        yield path, f"{before!r} became {after!r}"


def main() -> int:
    """Check the versions; return 1 if there are problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="versions of k8s.io/api, such as v0.38.0-beta.0")
    parser.add_argument("--keep", action="store_true", help="write the dropped fields of the first version")
    given = parser.parse_args()
    began, problems = time.monotonic(), list[str]()
    for text in given.versions:
        try:
            module = fetch("api", Version.parse(text))
        except DownloadError as error:
            parser.error(str(error))
        if isinstance(module, str):
            parser.error(f"k8s.io/api {text} cannot be downloaded: {module}")
        count = 0
        for release in DIRECTORIES:
            directory = module / "testdata" / release
            if not directory.is_dir():
                continue
            found, dropped = check_directory(directory, is_current=release == "HEAD")
            problems += [f"{text} {release} {problem}" for problem in found]
            count += len([*directory.glob("*.json")])
            if release == "HEAD":
                if given.keep and text == given.versions[0]:
                    DROPPED.write_text("".join(f"{field}\n" for field in sorted(dropped)), encoding="utf-8")
                known = {*DROPPED.read_text(encoding="utf-8").splitlines()}
                problems += [f"{text}: dropped, but not listed: {field}" for field in sorted(dropped - known)]
                if text == given.versions[0]:
                    problems += [f"{text}: listed, but not dropped: {field}" for field in sorted(known - dropped)]
        sys.stdout.write(f"k8s.io/api {text}: {count} sample objects read\n")
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(f"{len(problems)} problems in {time.monotonic() - began:.0f} s\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
