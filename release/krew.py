"""Pack `kubectl moorage` for krew, write its manifest, and validate both with krew's own programs: `make krew`.

An archive contains `moorage.pyz` and a launcher. The manifest names an archive for each platform with a file in
dist/; a release workflow builds each on a machine of that platform.
"""

import contextlib
import hashlib
import http.server
import io
import os
import re
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from release.dist import DIST, ROOT, VERSION, run

TOOLS: Final = ROOT / "release" / "tools"
REPOSITORY: Final = os.environ.get("MOORAGE_REPOSITORY", "https://github.com/OWNER/moorage")
DOWNLOADS: Final = f"{REPOSITORY}/releases/download/v{VERSION}"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
LAUNCHER: Final = """#!/bin/sh
# krew links to this file: the program is next to its target.
exec env PEX_SCRIPT=kubectl-moorage python3 "$(dirname "$(readlink -f "$0")")/moorage.pyz" "$@"
"""
DESCRIPTION: Final = """\
Explain why a pod is pending and which changes would make it fit, simulate
changes of a cluster, and plan capacity. The plugins of kube-scheduler compute
every answer, for your scheduler configuration. Nothing is installed in the
cluster, and nothing is written to it.
"""
CAVEATS: Final = """\
This plugin needs Python 3.11 to 3.14 as python3. The first start unpacks its
libraries below ~/.cache.

  kubectl moorage explain POD
  kubectl moorage --help
"""


def main() -> None:
    """Pack, write and validate."""
    archives = dict(pack(file) for file in sorted(DIST.glob("moorage-*.pyz")))
    if not archives:
        raise SystemExit("dist/ has no moorage.pyz: run `make pyz` first")
    directory = DIST / "krew"
    directory.mkdir(exist_ok=True)
    (directory / "moorage.yaml").write_text(yaml.safe_dump(manifest(archives, DOWNLOADS), sort_keys=False))
    with serve(DIST) as address:
        validate(archives, address)


def pack(file: Path) -> tuple[tuple[str, str], Path]:
    """Write the archive of a platform; return its system and architecture, and the file."""
    match = re.search(r"-(linux|darwin)-(\w+)\.pyz$", file.name)
    assert match is not None, f"{file.name} names no platform"
    system, architecture = match[1], ARCHITECTURES[match[2]]
    archive = DIST / f"kubectl-moorage-{system}-{architecture}.tar.gz"
    # The content is compressed already.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(file, "moorage.pyz")
        tar.add(ROOT / "LICENSE", "LICENSE")
        launcher = tarfile.TarInfo("kubectl-moorage")
        launcher.mode, launcher.size = 0o755, len(LAUNCHER)
        tar.addfile(launcher, io.BytesIO(LAUNCHER.encode()))
    return (system, architecture), archive


def manifest(archives: dict[tuple[str, str], Path], downloads: str) -> dict[str, Any]:
    """Return the manifest of the plugin, for the krew index."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": architecture}},
            "uri": f"{downloads}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": "kubectl-moorage",
        }
        for (system, architecture), archive in archives.items()
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "moorage"},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": REPOSITORY,
            "shortDescription": "Explain pending pods and simulate scheduling",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": platforms,
        },
    }


def validate(archives: dict[tuple[str, str], Path], address: str) -> None:
    """Run krew's validator, which installs every platform; then install the plugin and use it."""
    with tempfile.TemporaryDirectory(prefix="moorage-krew-") as directory:
        programs = Path(directory) / "bin"
        for name, target in {"krew": "kubectl-krew", "validate-krew-manifest": "validate-krew-manifest"}.items():
            package = f"sigs.k8s.io/krew/cmd/{name}"
            run(["go", "-C", str(TOOLS), "build", "-o", programs / target, package])
        kubectl = subprocess.run(
            [ROOT / "conformance/control-plane", "kubectl"], check=True, capture_output=True, text=True
        ).stdout.splitlines()[-1]
        environment = {
            **os.environ,
            "PATH": f"{directory}/krew/bin:{programs}:{kubectl}:{os.environ['PATH']}",
            "KREW_ROOT": f"{directory}/krew",
            "PEX_ROOT": f"{directory}/pex",
        }
        file = Path(directory) / "moorage.yaml"
        file.write_text(yaml.safe_dump(manifest(archives, address), sort_keys=False))
        run(["validate-krew-manifest", "-manifest", file], environment=environment)
        run(["kubectl", "krew", "install", f"--manifest={file}"], environment=environment)
        tour = ROOT / "examples/clusters/tour.yaml"
        output = run(["kubectl", "moorage", "explain", "too-big", "-f", tour], environment=environment)
        if "Changes that would make it fit" not in output:
            raise SystemExit(f"kubectl moorage explain: unexpected output\n{output}")
    print(f"krew accepts the manifest for {len(archives)} platforms, installs it, and kubectl moorage works")


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[str]:
    """Serve a directory on loopback, because krew downloads what it installs."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(directory))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


if __name__ == "__main__":
    main()
