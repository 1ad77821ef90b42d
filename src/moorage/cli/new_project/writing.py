"""Writes the files of a project from its templates; it is there whole or not at all.

A template is a file whose name ends in ``.tpl``; ``{{ project }}`` in it, and ``package`` in its path, stand for names
of the project. What a kind of plugin has under the same name stands in for what all kinds have in common.
"""

import keyword
import re
import sys
import tempfile
from collections.abc import Collection, Iterator
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path
from typing import Final

from msgspec import Struct

from moorage import __version__
from moorage.cli.new_project.kinds import PluginKind
from moorage.common.errors import InputError
from moorage.scheduler.framework.registry import ENTRY_POINT_GROUP

TEMPLATES: Final = Path(__file__).with_name("templates")
TEMPLATE: Final = ".tpl"
BASE: Final = Path("deploy", "base")
"""A link to Moorage's own manifests, of which a project gets a copy."""
DOTTED: Final = ("gitignore", "dockerignore")
"""Files whose names begin with a dot, which packaging would leave out."""
MAX_NAME: Final = 40
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIELD: Final = re.compile(r"\{\{ (\w+) \}\}")


LABELS: Final = {PluginKind.FILTER: "pool", PluginKind.SCORE: "price", PluginKind.RESOURCE: "team"}
"""The label that the sample of each kind looks at."""


class ProjectNames(Struct, frozen=True):
    """What a project, its package and its plugin are called.

    >>> ProjectNames("spot-only").package, ProjectNames("spot-only").plugin
    ('spot_only', 'SpotOnly')
    """

    project: str

    @property
    def package(self) -> str:
        """The package to import."""
        return self.project.replace("-", "_")

    @property
    def plugin(self) -> str:
        """The class, which is its name in configurations as well."""
        return "".join(part.capitalize() for part in self.project.split("-"))


def names_of(project: str, taken: Collection[str] = ()) -> ProjectNames:
    """Check the name of a project; InputError says what to write instead. ``taken`` are names of other plugins."""
    where = f"NAME {project!r}"
    if not _NAME.fullmatch(project) or len(project) > MAX_NAME:
        problem = f"a project is named by at most {MAX_NAME} small letters, digits and dashes, a letter first"
        suggestion = _suggested(project)
        raise InputError(where, problem, hint=f"write {suggestion}" if suggestion else "write something like spot-only")
    names = ProjectNames(project)
    in_use = {*sys.stdlib_module_names, *_TAKEN_PACKAGES, *_installed(project)}
    if keyword.iskeyword(names.package) or names.package in in_use:
        raise InputError(where, f"{names.package!r} means something else in Python", hint=f"write {project}-plugin")
    if names.plugin in taken:
        raise InputError(where, f"there is a plugin {names.plugin} already", hint=f"write my-{project}")
    return names


def _installed(project: str) -> list[str]:
    """Name the packages that are installed here, which one of the same name would hide; not the project's own."""
    own = {entry.dist.name for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.dist is not None}
    return [name for name, owners in packages_distributions().items() if not (project in owners and project in own)]


_TAKEN_PACKAGES: Final = frozenset(("moorage", "test", "tests", "src", "package"))


def _suggested(name: str) -> str:
    """Make a name of what somebody wrote: ``SpotOnly``, ``spot_only`` and ``Spot Only!`` are ``spot-only``."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name)
    dashed = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:MAX_NAME].strip("-")
    return dashed if _NAME.fullmatch(dashed) else ""


def write_project(names: ProjectNames, kind: PluginKind, folder: Path) -> list[Path]:
    """Write a project into a folder that is not there yet, or empty; return its files, relative to it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = "name another one with --folder, or move it away: nothing is written over"
        raise InputError(str(folder), "this is there already", hint=hint)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as beside:
            made = Path(beside) / "project"
            written = sorted(_write(names, kind, made))
            made.replace(folder)
    except OSError as error:
        raise InputError(str(folder), f"the project cannot be written: {error.strerror or error}") from error
    return written


def _write(names: ProjectNames, kind: PluginKind, folder: Path) -> Iterator[Path]:
    fields = {
        "project": names.project,
        "package": names.package,
        "plugin": names.plugin,
        "label": LABELS[kind],
        "ask": "score" if kind is PluginKind.SCORE else "filter",
        "definition": " -f deploy/definition.yaml" if kind is PluginKind.RESOURCE else "",
        "moorage": __version__,
    }
    for relative, template in _templates(kind).items():
        path = Path(*(names.package if part == "package" else part for part in relative.parts))
        if path.name in DOTTED:
            path = path.with_name(f".{path.name}")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8")
        is_template = template.suffix == TEMPLATE
        filled = _FIELD.sub(lambda found: fields[found[1]], text) if is_template else text
        (folder / path).write_text(filled, encoding="utf-8")
        yield path


def _templates(kind: PluginKind) -> dict[Path, Path]:
    """Find the templates of a project, by where their files go."""
    found = {BASE / manifest.name: manifest for manifest in (TEMPLATES / "common" / BASE).glob("*.yaml")}
    for folder in (TEMPLATES / "common", TEMPLATES / kind.value):
        for template in folder.rglob(f"*{TEMPLATE}"):
            place = template.relative_to(folder)
            if not place.is_relative_to(BASE):  # the chart beside our manifests has templates of its own
                found[place.with_suffix("")] = template
    return found
