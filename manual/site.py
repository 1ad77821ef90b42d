"""Keep the sites of several versions in one directory: `python -m manual.site add DIRECTORY VERSION`.

Each version has a subdirectory, `latest` redirects to the newest version, and `versions.json` lists all versions for
the selector of the theme. Publish the directory with a web server or on the branch of a hosting service.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Final

BUILT: Final = Path(__file__).parents[1] / ".site"
REDIRECT: Final = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">\n'


def add(directory: Path, version: str, built: Path = BUILT) -> None:
    """Add the built site as a version, or replace that version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+|dev", version):
        sys.exit(f"{version!r} is no version: write 1.2.3, or dev")
    shutil.rmtree(directory / version, ignore_errors=True)
    shutil.copytree(built, directory / version)
    versions = sorted({version, *existing(directory)}, key=order, reverse=True)
    newest = next((name for name in versions if name != "dev"), version)
    entries = [{"version": name, "title": name, "aliases": ["latest"] if name == newest else []} for name in versions]
    (directory / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    (directory / "index.html").write_text(REDIRECT.format(target=f"{newest}/index.html"), encoding="utf-8")
    (directory / "latest").mkdir(exist_ok=True)
    (directory / "latest" / "index.html").write_text(
        REDIRECT.format(target=f"../{newest}/index.html"), encoding="utf-8"
    )
    for name in ("llms.txt",):
        shutil.copy(directory / newest / name, directory / name)


def existing(directory: Path) -> list[str]:
    """Return the versions in the directory."""
    return [path.name for path in directory.iterdir() if (path / "search").is_dir()]


def order(version: str) -> tuple[int, ...]:
    """Return the sort key of a version; the development version is first."""
    return (10**6,) if version == "dev" else tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    _, command, target, name = sys.argv
    assert command == "add", "python -m manual.site add DIRECTORY VERSION"
    Path(target).mkdir(parents=True, exist_ok=True)
    add(Path(target), name)
