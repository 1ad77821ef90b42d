"""Check that every file names the same version, or print the notes of a release: `python -m release.version`."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print `version=...` if all files agree with the argument; with --notes, print the changelog of this version."""
    arguments = sys.argv[1:]
    versions = dict(find_versions())
    current = versions["pyproject.toml"]
    if "--notes" in arguments:
        print(notes(current))
        return
    # A branch instead of a tag: a dry run.
    wanted = arguments[0] if arguments and re.fullmatch(r"\d+\.\d+\.\d+", arguments[0]) else current
    wrong = {name: version for name, version in versions.items() if version != wanted}
    if wrong:
        sys.exit(
            f"the release is {wanted}, but {', '.join(f'{name} has {version}' for name, version in wrong.items())}"
        )
    print(f"version={wanted}")


def find_versions() -> Iterator[tuple[str, str]]:
    """Yield the files that name the version of the project, with that version."""
    yield "pyproject.toml", tomllib.loads(read("pyproject.toml"))["project"]["version"]
    for name, pattern in (
        ("src/moorage/common/version.py", r'^VERSION: Final = "([^"]+)"'),
        ("deploy/helm/moorage/Chart.yaml", r"^version: (\S+)"),
        ("deploy/helm/moorage/Chart.yaml", r"^appVersion: (\S+)"),
        ("deploy/kustomization.yaml", r"newTag: (\S+)"),
        ("CHANGELOG.md", r"^## (\d+\.\d+\.\d+)"),
        ("CITATION.cff", r"^version: (\S+)"),
    ):
        match = re.search(pattern, read(name), re.MULTILINE)
        yield name, match[1] if match else "no version"


def notes(version: str) -> str:
    """Return the section of the changelog about a version."""
    match = re.search(rf"^## {re.escape(version)}.*?\n(.*?)(?=^## |\Z)", read("CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def read(name: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
