"""Unpack packages of the Debian archive into a directory, with their dependencies and without installing them.

This provides missing interpreters and the base root file system of an image on machines without a container engine.
Every package is verified by its SHA-256.
"""

import hashlib
import io
import lzma
import re
import shutil
import tarfile
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ARCHIVE: Final = "https://deb.debian.org/debian"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
MEMBER_HEADER: Final = 60  # bytes, in an ar archive

Fields = dict[str, str]
"""One paragraph of the package index."""


class Suite:
    """The index of one release of Debian, such as ``trixie``."""

    def __init__(self, name: str, machine: str, cache: Path) -> None:
        self._cache = cache
        self._packages: dict[str, Fields] = {}
        self._providers: dict[str, str] = {}
        index = lzma.decompress(download(f"{ARCHIVE}/dists/{name}/main/binary-{ARCHITECTURES[machine]}/Packages.xz"))
        for paragraph in index.decode().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
            if "Package" in fields:
                self._packages[fields["Package"]] = fields
                for provided in parse_names(fields.get("Provides", "")):
                    self._providers.setdefault(provided, fields["Package"])

    def version(self, package: str) -> str | None:
        """Return the version of a package, or None if the suite does not have it."""
        return self._packages.get(package, {}).get("Version")

    def essential(self) -> list[str]:
        """Return the packages that every Debian system has."""
        return [name for name, fields in self._packages.items() if fields.get("Essential") == "yes"]

    def closure(self, names: Iterable[str]) -> list[str]:
        """Return packages with all their dependencies; of alternatives, the first that exists."""
        complete: dict[str, None] = {}
        pending = [*names]
        while pending:
            name = pending.pop()
            name = name if name in self._packages else self._providers.get(name, name)
            if name in complete or name not in self._packages:
                continue
            complete[name] = None
            fields = self._packages[name]
            pending += parse_names(fields.get("Depends", "")) + parse_names(fields.get("Pre-Depends", ""))
        return sorted(complete, key=lambda package: (package != "base-files", package))

    def unpack(self, names: Iterable[str], root: Path) -> None:
        """Write the files of packages below a directory; maintainer scripts do not run."""
        for name in names:
            fields = self._packages[name]
            package = self._cache / Path(fields["Filename"]).name
            if not package.exists():
                content = download(f"{ARCHIVE}/{fields['Filename']}")
                if hashlib.sha256(content).hexdigest() != fields["SHA256"]:
                    raise SystemExit(f"{fields['Filename']}: the hash differs from that of the index")
                self._cache.mkdir(parents=True, exist_ok=True)
                package.write_bytes(content)
            for member, content in read_members(package.read_bytes()):
                if member.startswith("data.tar"):
                    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                        archive.extractall(root, filter="tar")


def parse_names(relation: str) -> list[str]:
    """Return the package names in a Depends field, the first of each list of alternatives."""
    return [re.split(r"[ :(|]", part.strip())[0] for part in relation.split(",") if part.strip()]


def read_members(package: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the members of an ar archive, which a Debian package is."""
    position = len(b"!<arch>\n")
    while position < len(package):
        header = package[position : position + MEMBER_HEADER]
        length = int(header[48:58])
        start = position + MEMBER_HEADER
        yield header[:16].decode().strip().rstrip("/"), package[start : start + length]
        position = start + length + length % 2


def download(url: str) -> bytes:
    """Return the content of a URL."""
    with urllib.request.urlopen(url, timeout=120) as response:
        content: bytes = response.read()
        return content


def empty_directory(directory: Path) -> Path:
    """Create a directory, without what an earlier run left in it."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
