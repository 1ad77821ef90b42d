"""Build the oracle with the packages of any release, outside of the tree."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from release.dist import ROOT
from release.next_minor.modules import DownloadError, Release, cache_directory, pinned_version

CONFORMANCE: Final = ROOT / "conformance"
_DIRECT: Final = ("api", "apimachinery", "apiserver", "client-go", "component-base", "kube-scheduler")
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
    sources = [*sorted((CONFORMANCE / "oracle").glob("*.go")), CONFORMANCE / "go.sum"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    directory = cache_directory() / f"oracle-{release.version}-{digest}"
    binary = directory / "oracle"
    if binary.exists():
        return binary
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(CONFORMANCE / "oracle", directory / "src")
    shutil.copy(CONFORMANCE / "go.sum", directory / "src")
    (directory / "src" / "go.mod").write_text(go_mod(release), encoding="utf-8")
    tags = ["-tags", "before1.37"] if release.version.minor < 37 else []
    command = ["go", "build", "-trimpath", *tags, "-ldflags", _version_flags(release), "-o", str(directory / ".oracle")]
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
        raise DownloadError("\n".join([f"the oracle does not build with {release.version}:", *errors[:20]]))
    (directory / ".oracle").rename(binary)
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
