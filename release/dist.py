"""Build wheel and sdist, check their contents, install the wheel into clean environments and use it: `make dist`.

Each supported Python gets an environment that contains only the wheel and its dependencies. The checks run in an empty
directory, so they cannot use files of the source tree.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release.interpreters import VERSIONS, find_interpreters

ROOT: Final = Path(__file__).resolve().parents[1]
DIST: Final = ROOT / "dist"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION: Final[str] = PROJECT["version"]
UV: Final = (sys.executable, "-m", "uv")
BASE: Final = "moorage/cli/new_project/templates/common/deploy/base"
#: Directories that a wheel never contains, and files that an sdist always does.
NOT_IN_WHEEL: Final = ("tests/", "docs/", "benchmarks/", "conformance/", "release/")
IN_SDIST: Final = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "deploy/rbac.yaml", "tests/conftest.py")
#: The first commands of a user, with a text that the output contains. Files are copied from examples/.
COMMANDS: Final = {
    "moorage --version": f"moorage {VERSION}",
    "moorage up --nodes 5 -f shop.yaml --for 5s": "nodes 5/5 ready",
    "moorage explain too-big -f tour.yaml": "Changes that would make it fit",
    "moorage simulate -f web-shop.yaml": "13 pods: 10 scheduled",
    "moorage config check config.yaml": "",
    "moorage new my-plugin": "Created my-plugin with",
    "kubectl-moorage explain web -f tour.yaml": "default/web",
}
CONFIG: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EXAMPLES: Final = ("workloads/shop.yaml", "clusters/tour.yaml", "clusters/web-shop.yaml")


def main() -> None:
    """Build, check and try; exit non-zero with the reason if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-only", action="store_true", help="build and check, but install nothing")
    parser.add_argument("--python", action="append", choices=VERSIONS, help="try only this version; repeatable")
    arguments = parser.parse_args()
    wheel, sdist = build()
    check_wheel(wheel)
    check_sdist(sdist)
    run([*UV, "tool", "run", "--quiet", "--from", "twine>=6", "twine", "check", "--strict", wheel, sdist])
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    if arguments.build_only:
        return
    interpreters = find_interpreters()
    rows = [try_wheel(wheel, version, interpreters.get(version)) for version in arguments.python or VERSIONS]
    print("\n| Python | packages | installed | seconds | used |\n|---|---|---|---|---|")
    print("\n".join(rows))
    try_launchers(wheel)


def build() -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, so that the sdist is known to be complete."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="moorage-dist-") as directory:
        run([*UV, "build", "--quiet", "--out-dir", DIST, prepare_tree(Path(directory))])
    (DIST / ".gitignore").unlink(missing_ok=True)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def prepare_tree(directory: Path) -> Path:
    """Return the tree to build from: with MOORAGE_REPOSITORY, a copy with links to that repository in its README.

    An index shows the README without the files next to it.
    """
    repository = os.environ.get("MOORAGE_REPOSITORY")
    if not repository:
        return ROOT
    tree = directory / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".*env*", ".git", ".*_cache", "dist"))
    readme = tree / "README.md"
    readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), repository), encoding="utf-8")
    project = tree / "pyproject.toml"
    urls = f'[project.urls]\nHomepage = "{repository}"\nChangelog = "{repository}/blob/main/CHANGELOG.md"\n\n'
    project.write_text(project.read_text(encoding="utf-8").replace("[project.scripts]", f"{urls}[project.scripts]"))
    return tree


def absolute_links(text: str, repository: str) -> str:
    """Make relative links of a README absolute, for the tag of this version."""

    def replace(match: re.Match[str]) -> str:
        kind = "raw" if match[1] == "!" else "blob"
        return f"{match[1]}[{match[2]}]({repository}/{kind}/v{VERSION}/{match[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", replace, text)


def check_wheel(wheel: Path) -> None:
    """Require every file of the package in the wheel, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"moorage-{VERSION}.dist-info/")}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/moorage"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    package = {name.removeprefix("src/") for name in tracked if (ROOT / name).is_file()}
    manifests = {f"{BASE}/{path.name}" for path in (ROOT / "deploy").glob("*.yaml")}
    fail_if("missing in the wheel", (package | manifests) - names)
    fail_if("not expected in the wheel", names - package - manifests)


def check_sdist(sdist: Path) -> None:
    """Require what is needed to build and test, without files of a developer's machine."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    fail_if("missing in the sdist", set(IN_SDIST) - names)
    private = re.compile(r"(^|/)(\.git|\.venv|\.env|__pycache__|\.mypy_cache|\.bench|dist)(/|$)")
    fail_if("not expected in the sdist", {name for name in names if private.search(name)})


def try_wheel(wheel: Path, version: str, interpreter: Path | None) -> str:
    """Install the wheel into a new environment and use it; return a row of the table."""
    if interpreter is None:
        return f"| {version} | – | – | – | NOT TRIED: no interpreter |"
    with tempfile.TemporaryDirectory(prefix="moorage-try-") as directory:
        environment = Path(directory) / "env"
        run([*UV, "venv", "--quiet", "--no-project", "--python", interpreter, environment])
        started = time.monotonic()
        run([*UV, "pip", "install", "--quiet", "--python", environment / "bin/python", wheel])
        seconds = time.monotonic() - started
        packages = next(environment.glob("lib/python3*/site-packages"))
        size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6
        count = len([*packages.glob("*.dist-info")])
        use(environment / "bin", Path(directory) / "empty")
    return f"| {version} | {count} | {size:.0f} MB | {seconds:.0f} | {len(COMMANDS)} commands |"


def use(programs: Path, directory: Path) -> None:
    """Run the first commands of a user in an empty directory, with nothing else on the path."""
    directory.mkdir()
    for example in EXAMPLES:
        shutil.copy(ROOT / "examples" / example, directory)
    (directory / "config.yaml").write_text(CONFIG)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(directory), "COLUMNS": "120"}
    for command, expected in COMMANDS.items():
        output = run([programs / command.split()[0], *command.split()[1:]], cwd=directory, environment=environment)
        if expected not in output:
            raise SystemExit(f"{command}: expected {expected!r} in the output:\n{output}")


def try_launchers(wheel: Path) -> None:
    """Run the lines of the README that need no installation, with the built wheel in place of the index."""
    for launcher in ([*UV, "tool", "run", "--from"], [*UV, "tool", "run", "pipx", "run", "--spec"]):
        output = run([*launcher, wheel, "moorage", "--version"])
        if VERSION not in output:
            raise SystemExit(f"{' '.join(map(str, launcher))}: expected {VERSION} in {output!r}")
    print(f"uvx and pipx run moorage {VERSION} from the wheel")


def run(command: Sequence[str | Path], cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a program that is expected to succeed; return its output."""
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        line = " ".join(str(part) for part in command)
        raise SystemExit(f"{line}\nfailed with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def fail_if(problem: str, names: set[str]) -> None:
    """Exit with the names if there are any."""
    if names:
        raise SystemExit(f"{problem}: {', '.join(sorted(names)[:20])}")


if __name__ == "__main__":
    main()
