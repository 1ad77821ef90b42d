"""Find the supported interpreters of this machine; fetch missing ones from Debian.

A fetched interpreter brings its own C library. patchelf makes it load that library from its directory, so it runs on an
older system like an installed one.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from release.debian import Suite, empty_directory

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
SUITES: Final = ("forky", "sid", "trixie")
CACHE: Final = Path(os.environ.get("MOORAGE_CACHE") or Path.home() / ".cache" / "moorage")
#: Libraries that wheels expect on a system, in addition to those of the interpreter.
SYSTEM_LIBRARIES: Final = ("libstdc++6", "libgcc-s1", "zlib1g", "tzdata", "ca-certificates")
PROBE: Final = "import sys, venv, ssl, sqlite3; v = sys.version_info; print(f'{v[0]}.{v[1]} {v[2]} {v[3]}')"


def find_interpreters(*, fetch: bool = True) -> dict[str, Path]:
    """Return the newest interpreter of each supported version, by version."""
    newest: dict[str, tuple[int, Path]] = {}
    for candidate in candidates():
        probe = subprocess.run([candidate, "-c", PROBE], capture_output=True, text=True, check=False)
        if probe.returncode:
            continue
        version, micro, level = probe.stdout.split()
        if version in VERSIONS and level == "final" and int(micro) >= newest.get(version, (0, candidate))[0]:
            newest[version] = (int(micro), candidate)
    interpreters = {version: path for version, (_, path) in newest.items()}
    for version in VERSIONS if fetch else ():
        if version not in interpreters and (fetched := fetch_interpreter(version)) is not None:
            interpreters[version] = fetched
    return dict(sorted(interpreters.items()))


def candidates() -> list[Path]:
    """Return the paths where an interpreter may be."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    directories = [Path(directory) for directory in os.environ.get("PATH", "").split(os.pathsep)]
    paths = [directory / f"python{version}" for directory in directories for version in VERSIONS]
    paths += [*pyenv.glob("*/bin/python3"), *(CACHE / "python").glob("*/usr/bin/python3.[0-9][0-9]")]
    # Shims of pyenv only work for the versions that are active; a virtual environment is not a clean start.
    return [
        path
        for path in dict.fromkeys(paths)
        if path.is_file() and "shims" not in path.parts and not (path.parents[1] / "pyvenv.cfg").exists()
    ]


def fetch_interpreter(version: str) -> Path | None:
    """Unpack an interpreter of Debian in the cache; return None if it cannot be had."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "aarch64"):
        return None
    package = f"python{version}"
    for name in SUITES:
        try:
            suite = Suite(name, machine, CACHE / "debian")
        except OSError as error:
            print(f"Python {version}: the Debian archive cannot be reached ({error})", file=sys.stderr)
            return None
        if suite.version(package) is None:
            continue
        print(f"Python {version}: unpacking {package} {suite.version(package)} of Debian {name}", file=sys.stderr)
        root = empty_directory(CACHE / "python" / f"{package}-{name}")
        suite.unpack(suite.closure((package, f"{package}-venv", *SYSTEM_LIBRARIES)), root)
        return relocate(root, package)
    return None


def relocate(root: Path, package: str) -> Path:
    """Make an unpacked interpreter load its own libraries; return its path."""
    directory = next((root / "usr/lib").glob("*-linux-gnu"))
    loader = next(directory.glob("ld-linux-*.so.*"))
    program = root / "usr/bin" / package
    patchelf = shutil.which("patchelf")
    command = [patchelf] if patchelf else [sys.executable, "-m", "uv", "tool", "run", "--quiet", "patchelf"]
    # RPATH, which also counts for the libraries that are loaded later; the default, RUNPATH, does not. The other order
    # of these two commands produces a program that crashes.
    subprocess.run([*command, "--force-rpath", "--set-rpath", directory, program], check=True)
    subprocess.run([*command, "--set-interpreter", loader, program], check=True)
    # ensurepip looks for wheels below /usr/share.
    library, wheels = root / "usr/lib" / package, "/usr/share/python-wheels"
    for file in (library / "ensurepip/__init__.py", *library.glob("_sysconfig*")):
        file.write_text(file.read_text().replace(wheels, f"{root}{wheels}"))
    return program


def main() -> None:
    """Print the interpreters, one `version path` per line."""
    for version, path in find_interpreters(fetch="--fetch" in sys.argv).items():
        print(version, path)


if __name__ == "__main__":
    main()
