"""Build `moorage.pyz`, one file that needs only Python, and start it in a clean environment: `make pyz`.

The file contains the wheels of every supported Python for the platform it is built on. At its first start it unpacks
the required wheels into PEX_ROOT, by default below ~/.cache.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from release.dist import DIST, UV, VERSION, build, run, use
from release.interpreters import find_interpreters

PEX: Final = (*UV, "tool", "run", "--quiet", "--from", "pex>=2.90", "pex")


def main() -> None:
    """Build the file and try it with each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--try-only", action="store_true", help="use the file that is there")
    arguments = parser.parse_args()
    file = DIST / f"moorage-{VERSION}-{sys.platform}-{platform.machine()}.pyz"
    interpreters = find_interpreters()
    if not arguments.try_only:
        build_pyz(file, [*interpreters.values()])
    print(f"{file.name}: {file.stat().st_size / 1e6:.0f} MB, for Python {', '.join(interpreters)}")
    for version, interpreter in interpreters.items():
        first, second = try_pyz(file, interpreter)
        print(f"Python {version}: first start {first:.1f} s, then {second:.1f} s")


def build_pyz(file: Path, interpreters: list[Path]) -> None:
    """Build the file from the wheel, for these interpreters."""
    wheels = [*DIST.glob("*.whl")]
    wheel = wheels[0] if wheels else build()[0]
    pythons = [f"--python={interpreter}" for interpreter in interpreters]
    # With a virtual environment, the second start is as fast as the start of an installed command.
    options = ("--venv", "prepend", "--sh-boot", "--no-emit-warnings", "--script=moorage")
    run([*PEX, wheel, *pythons, *options, f"--output-file={file}"])


def try_pyz(file: Path, interpreter: Path) -> tuple[float, float]:
    """Use the file with one interpreter, an empty home and no packages; return the seconds of two starts."""
    with tempfile.TemporaryDirectory(prefix="moorage-pyz-") as directory:
        programs = Path(directory) / "bin"
        programs.mkdir()
        for name in ("moorage", "kubectl-moorage"):
            launcher = programs / name
            launcher.write_text(f'#!/bin/sh\nexec env PEX_ROOT={directory}/pex "{interpreter}" "{file}" "$@"\n')
            launcher.chmod(0o755)
        seconds = []
        for _ in range(2):
            started = time.monotonic()
            run(
                [programs / "moorage", "--version"],
                cwd=Path(directory),
                environment={"PATH": os.defpath, "HOME": directory},
            )
            seconds.append(time.monotonic() - started)
        use(programs, Path(directory) / "empty")
    return seconds[0], seconds[1]


if __name__ == "__main__":
    main()
