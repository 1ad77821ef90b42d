"""Build the oracle and the program of libraries with the packages of any release, outside of the tree."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from release.dist import ROOT
from release.next_minor.modules import DownloadError, Release, cache_directory, fetch_exact, pinned_version

CONFORMANCE: Final = ROOT / "conformance"
_DIRECT: Final = ("api", "apimachinery", "apiserver", "client-go", "component-base", "kube-scheduler")
_LIBRARIES: Final = ("apimachinery", "apiserver", "component-helpers")
_OPENAPI: Final = re.compile(r"k8s\.io/kube-openapi (v\S+)")
_STAGED: Final = re.compile(r"^\s*k8s\.io/(\S+) => \./staging/", re.M)
_GO: Final = re.compile(r"^go (\S+)", re.M)


def build_oracle(release: Release) -> Path:
    """Return the oracle of a release; build it if its sources changed. DownloadError names the failure."""
    if "kubernetes" not in release.directories:
        reason = release.refused.get("kubernetes", "not downloaded")
        raise DownloadError(f"k8s.io/kubernetes {release.version}: {reason}; there is no scheduler to build yet")
    if release.version == pinned_version():
        # The release of conformance: the oracle is shared with all other tests.
        built = subprocess.run(
            [CONFORMANCE / "control-plane", "oracle"], stdout=subprocess.PIPE, text=True, check=False
        )
        if built.returncode != 0:
            raise DownloadError(f"conformance/control-plane failed with exit code {built.returncode}; see above")
        return Path(built.stdout.splitlines()[-1]) / "oracle"
    tags = ["before1.37"] if release.version.minor < 37 else []
    return _build("oracle", release, go_mod(release), tags, _version_flags(release))


def build_libraries(release: Release) -> Path:
    """Return the program that evaluates libraries, built with a release, which may have no scheduler yet."""
    for name in _LIBRARIES:
        if name not in release.directories:
            raise DownloadError(f"k8s.io/{name} {release.version}: {release.refused.get(name, 'not downloaded')}")
    names = release.directories["component-helpers"] / "scheduling/schedulingv1/workloadbuilder/names.go"
    return _build("libraries", release, libraries_go_mod(release), ["names"] if names.exists() else [], "-s -w")


def _build(name: str, release: Release, module: str, tags: list[str], flags: str) -> Path:
    """Build a program of conformance/ outside of the tree, unless its sources are those of the last build."""
    sources = [*sorted((CONFORMANCE / name).glob("*.go")), CONFORMANCE / "go.sum"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    directory = cache_directory() / f"{name}-{release.version}-{digest}"
    binary = directory / name
    if binary.exists():
        return binary
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(CONFORMANCE / name, directory / "src")
    shutil.copy(CONFORMANCE / "go.sum", directory / "src")
    (directory / "src" / "go.mod").write_text(module, encoding="utf-8")
    command = ["go", "build", "-trimpath", f"-tags={','.join(tags)}", "-ldflags", flags, "-o", f"{directory}/.{name}"]
    built = subprocess.run(
        command,
        cwd=directory / "src",
        env=os.environ
        | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false", "GOWORK": "off"}
        | toolchain(release),
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        errors = [line for line in built.stderr.splitlines() if not line.startswith("go: downloading")]
        raise DownloadError("\n".join([f"{name} cannot be built with {release.version}:", *errors[:20]]))
    (directory / f".{name}").rename(binary)
    return binary


def go_mod(release: Release) -> str:
    """Return a go.mod that requires the modules of a release, and replaces each staging module by the same release."""
    text = (release.directories["kubernetes"] / "go.mod").read_text(encoding="utf-8")
    requires = "".join(f"\tk8s.io/{name} {release.version.of(name)}\n" for name in ("kubernetes", *_DIRECT))
    replaced = "".join(
        f"\tk8s.io/{name} => k8s.io/{name} {release.version.of(name)}\n" for name in _STAGED.findall(text)
    )
    return (
        f"module moorage.dev/oracle\n\ngo {go_version(release)}\n\nrequire (\n{requires})\n\nreplace (\n{replaced})\n"
    )


def libraries_go_mod(release: Release) -> str:
    """Return a go.mod for the libraries of a release; kube-openapi is that of conformance if it is not published."""
    requires = "".join(f"\tk8s.io/{name} {release.version.of(name)}\n" for name in _LIBRARIES)
    text = f"module moorage.dev/libraries\n\ngo {go_version(release)}\n\nrequire (\n{requires})\n"
    needed = _OPENAPI.search((release.directories["apiserver"] / "go.mod").read_text(encoding="utf-8"))
    if needed is None or isinstance(fetch_exact(f"k8s.io/kube-openapi@{needed[1]}"), Path):
        return text
    pinned = _OPENAPI.search((CONFORMANCE / "go.mod").read_text(encoding="utf-8"))
    assert pinned is not None
    return f"{text}\nreplace k8s.io/kube-openapi => k8s.io/kube-openapi {pinned[1]}\n"


def go_version(release: Release) -> str:
    """Return the version of Go that a release requires, such as 1.27.0."""
    directory = release.directories.get("kubernetes") or next(iter(release.directories.values()))
    match = _GO.search((directory / "go.mod").read_text(encoding="utf-8"))
    return match[1] if match else "1.26.0"


def toolchain(release: Release) -> dict[str, str]:
    """Return the environment in which go runs the version that a release needs, which it downloads."""
    installed = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    needed = go_version(release)
    is_enough = _numbers(installed.strip().removeprefix("go")) >= _numbers(needed)
    return {} if is_enough else {"GOTOOLCHAIN": f"go{needed}"}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _version_flags(release: Release) -> str:
    package, version = "k8s.io/component-base/version", release.version
    return f"-s -w -X {package}.gitVersion=v{version} -X {package}.gitMajor=1 -X {package}.gitMinor={version.minor}"
