"""The contents of wheels, and the README shown by an index."""

import tomllib

from release.debian import parse_names, read_members
from release.dist import BASE, ROOT, absolute_links

LINKS = {
    "a page": ("[a](docs/a.md)", "[a](https://code.example/m/blob/v0.1.0/docs/a.md)"),
    "a picture": ("![a](docs/a.svg)", "![a](https://code.example/m/raw/v0.1.0/docs/a.svg)"),
    "another site": ("[a](https://other.example/a)", "[a](https://other.example/a)"),
    "a heading": ("[a](#a)", "[a](#a)"),
}


def test_relative_links_become_absolute() -> None:
    for name, (before, after) in LINKS.items():
        assert absolute_links(before, "https://code.example/m") == after, name


def test_the_wheel_includes_every_manifest_of_deploy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"deploy/{path.name}": f"{BASE}/{path.name}" for path in (ROOT / "deploy").glob("*.yaml")}


def test_dependencies_are_names_without_versions_and_alternatives() -> None:
    field = "libc6 (>= 2.38), python3.14-minimal (= 3.14.8-1), media-types | mime-support, libssl3t64:any"
    assert parse_names(field) == ["libc6", "python3.14-minimal", "media-types", "libssl3t64"]


def test_members_of_a_package_are_read_at_even_positions() -> None:
    def member(name: str, content: bytes) -> bytes:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        return header + content + b"\n" * (len(content) % 2)

    package = b"!<arch>\n" + member("debian-binary", b"2.0") + member("data.tar.xz/", b"data")
    assert dict(read_members(package)) == {"debian-binary": b"2.0", "data.tar.xz": b"data"}
