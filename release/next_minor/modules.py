"""Download the Go modules of a Kubernetes release by exact version."""

import json
import os
import re
import subprocess
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, Self

from release.dist import ROOT

MODULES: Final = (
    "kubernetes",
    "api",
    "apimachinery",
    "apiserver",
    "client-go",
    "component-base",
    "component-helpers",
    "kube-scheduler",
    "dynamic-resource-allocation",
)
_VERSION: Final = re.compile(r"v?[01]\.(\d+)\.(\d+)(-(?:alpha|beta|rc)\.\d+)?")
_STATUS: Final = re.compile(r"\b[45]\d\d [A-Z][a-z]+")
_PRE_RELEASES: Final = (*(f"-alpha.{n}" for n in range(5)), "-beta.0", "-beta.1", "-rc.0", "-rc.1", "-rc.2")


class DownloadError(Exception):
    """No module of a version can be downloaded, Go is missing, or a program does not build."""


class Version(NamedTuple):
    """A release: Kubernetes 1.x with libraries 0.x."""

    minor: int
    patch: int
    pre_release: str = ""

    @classmethod
    def parse(cls, text: str, name: str = "VERSION") -> Self:
        """Read v1.38.0-beta.0, 1.37.1 or v0.38.0-alpha.2; messages contain the ``name`` of the argument."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise DownloadError(f"{name}: {text!r} is not a version; write for example v1.38.0-beta.0 or 1.37.1")
        return cls(int(match[1]), int(match[2]), match[3] or "")

    def of(self, module: str) -> str:
        """Return the version of a module."""
        return f"v{1 if module == 'kubernetes' else 0}.{self.minor}.{self.patch}{self.pre_release}"

    @property
    def release(self) -> str:
        """The minor version, such as 1.38."""
        return f"1.{self.minor}"

    def __str__(self) -> str:
        return f"1.{self.minor}.{self.patch}{self.pre_release}"


@dataclass(frozen=True)
class Release:
    """The sources of a release: a directory for each module, and the reason for each missing module."""

    version: Version
    directories: dict[str, Path] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def find(self, *places: str) -> list[Path]:
        """Return the existing ones of several directories, such as `kubernetes/pkg/features`."""
        paths = []
        for place in places:
            module, _, rest = place.partition("/")
            if module in self.directories and (path := self.directories[module] / rest).is_dir():
                paths.append(path)
        return paths


def cache_directory() -> Path:
    """Return the directory of everything that is downloaded or built here."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MOORAGE_CACHE") or f"{caches}/moorage") / "next-minor"


def pinned_version() -> Version:
    """Return the release that conformance is built with."""
    text = (ROOT / "conformance" / "go.mod").read_text(encoding="utf-8")
    match = re.search(r"k8s\.io/kubernetes (v\S+)", text)
    assert match is not None
    return Version.parse(match[1])


def download(version: Version, modules: tuple[str, ...] = MODULES, name: str = "VERSION") -> Release:
    """Download the modules of a release; raise DownloadError if no module is available."""
    release = Release(version)
    with ThreadPoolExecutor(4) as pool:
        for module, found in zip(modules, pool.map(lambda name: fetch(name, version), modules), strict=True):
            if isinstance(found, Path):
                release.directories[module] = found
            else:
                release.refused[module] = found
    if not release.directories:
        reason = next(iter(release.refused.values()))
        if not _STATUS.search(reason):
            advice = f"check the network and GOPROXY ({os.environ.get('GOPROXY') or _go_env('GOPROXY')})"
            raise DownloadError(f"no module of {version} can be downloaded: {reason}; {advice}")
        known = ", ".join(published(version.minor)) or "none"
        raise DownloadError(
            f"{name}: no module of {version} can be downloaded ({reason}); published for 1.{version.minor}: {known}"
        )
    return release


def fetch(module: str, version: Version) -> Path | str:
    """Return the directory of a module's sources, or the error message of the proxy."""
    return fetch_exact(f"k8s.io/{module}@{version.of(module)}")


def fetch_exact(name: str) -> Path | str:
    """Return the same for a module with its version, such as k8s.io/api@v0.38.0."""
    try:
        ran = subprocess.run(
            ["go", "mod", "download", "-json", name],
            cwd=ROOT / "conformance" / "surface",
            env=os.environ | {"GOFLAGS": "-mod=mod", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise DownloadError("Go is not installed, or not on the PATH (https://go.dev/dl)") from None
    downloaded: dict[str, Any] = json.loads(ran.stdout) if ran.stdout.strip() else {"Error": ran.stderr.strip()}
    if directory := downloaded.get("Dir"):
        return Path(directory)
    if downloaded.get("Zip") and downloaded.get("Sum"):
        # The module needs a newer Go than the installed one. Its sources can be read nevertheless.
        return _extract(Path(downloaded["Zip"]), name)
    return _short(downloaded.get("Error") or "no answer")


def _extract(archive: Path, name: str) -> Path:
    modules = cache_directory() / "modules"
    directory = modules / name
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        # One directory for each archive: several modules are extracted at the same time.
        with TemporaryDirectory(dir=modules) as partial:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(partial)
            (Path(partial) / name).rename(directory)
    return directory


def _short(error: str) -> str:
    """Return the reason of an error of go without its address."""
    if match := _STATUS.search(error):
        return match[0]
    # Go repeats the name and the address of the module; the cause is at the end.
    return error.splitlines()[-1].strip().rpartition('": ')[2][:200]


def published(minor: int) -> list[str]:
    """Return the versions of a minor with downloadable API or scheduler modules, oldest first."""
    suffixes = [*(f"0{suffix}" for suffix in _PRE_RELEASES), *(str(patch) for patch in range(6))]
    versions = [Version.parse(f"v1.{minor}.{suffix}") for suffix in suffixes]
    with ThreadPoolExecutor(12) as pool:
        return [text for text in pool.map(_describe, versions) if text]


def _describe(version: Version) -> str:
    if _has_zip("kubernetes", version):
        return f"v{version}"
    return f"v{version} (libraries only)" if _has_zip("api", version) else ""


def _has_zip(module: str, version: Version) -> bool:
    """Request the archive from the proxy; the description of a version may exist without it."""
    proxy = re.split("[,|]", os.environ.get("GOPROXY") or _go_env("GOPROXY"))[0]
    if not proxy.startswith("http"):
        return False
    request = urllib.request.Request(f"{proxy}/k8s.io/{module}/@v/{version.of(module)}.zip", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _go_env(name: str) -> str:
    return subprocess.run(["go", "env", name], capture_output=True, text=True, check=True).stdout.strip()
