"""Write the files of a new project from templates, completely or without any change.

A template has the extension ``.tpl``. ``{{ project }}`` in its text and ``package`` in its path are replaced by names
of the project. A template of a plugin kind replaces the common template of the same path.
"""

import keyword
import re
import sys
import tempfile
from collections.abc import Collection, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from msgspec import Struct

from moorage import __version__
from moorage.cli.new import PluginKind
from moorage.common.errors import InputError
from moorage.scheduler.framework.registry import installed_entry_points

TEMPLATES: Final = Path(__file__).with_name("templates")
TEMPLATE: Final = ".tpl"
BASE: Final = Path("deploy", "base")
"""A symbolic link to the manifests of Moorage, which are copied into a project."""
DOTTED: Final = ("gitignore", "dockerignore")
"""Files with names that start with a dot. Packaging would omit them."""
MAX_NAME: Final = 40
RESERVED_PACKAGES: Final = frozenset(("moorage", "test", "tests", "src", "package"))
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIELD: Final = re.compile(r"\{\{ (\w+) \}\}")


LABELS: Final = {
    PluginKind.FILTER: "pool",
    PluginKind.SCORE: "price",
    PluginKind.RESOURCE: "team",
    PluginKind.QUEUE_SORT: "deadline",
    PluginKind.RESERVE: "license",
    PluginKind.POST_FILTER: "pool",
    PluginKind.BIND: "audit",
}
"""The label that the sample plugin of each kind reads."""


class ProjectNames(Struct, frozen=True):
    """The names of a project, its package and its plugin.

    >>> ProjectNames("spot-only").package, ProjectNames("spot-only").plugin
    ('spot_only', 'SpotOnly')
    """

    project: str

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return self.project.replace("-", "_")

    @property
    def plugin(self) -> str:
        """The name of the class, and of the plugin in configurations."""
        return "".join(part.capitalize() for part in self.project.split("-"))


def check_name(project: str, known_plugins: Collection[str] = ()) -> ProjectNames:
    """Return the names of a project. Raise InputError with a suggestion if the name is invalid or in use."""
    location = f"NAME {project!r}"
    if not _NAME.fullmatch(project) or len(project) > MAX_NAME:
        problem = f"a name has at most {MAX_NAME} lower-case letters, digits and dashes, and starts with a letter"
        words = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", project)
        dashed = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:MAX_NAME].strip("-")
        suggestion = dashed if _NAME.fullmatch(dashed) else ""
        raise InputError(location, problem, hint=f"use {suggestion}" if suggestion else "use a name such as spot-only")
    names = ProjectNames(project)
    # A package would hide an installed one of the same name. The project itself may be installed already.
    own = {entry.dist.name for entry in installed_entry_points() if entry.dist is not None}
    installed = (
        name for name, owners in packages_distributions().items() if not (project in owners and project in own)
    )
    in_use = {*sys.stdlib_module_names, *RESERVED_PACKAGES, *installed}
    if keyword.iskeyword(names.package) or names.package in in_use:
        raise InputError(location, f"the Python name {names.package!r} is in use", hint=f"use {project}-plugin")
    if names.plugin in known_plugins:
        raise InputError(location, f"a plugin named {names.plugin} already exists", hint=f"use my-{project}")
    return names


def write_project(names: ProjectNames, kind: PluginKind, directory: Path) -> list[Path]:
    """Write a project into a new or empty directory. Return its files, relative to the directory."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        hint = "choose another directory with --directory; existing files are never overwritten"
        raise InputError(str(directory), "already exists", hint=hint)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as temporary:
            project = Path(temporary) / "project"
            files = sorted(_write(names, kind, project))
            project.replace(directory)
    except OSError as error:
        raise InputError(str(directory), f"cannot write the project: {error.strerror or error}") from error
    return files


def _write(names: ProjectNames, kind: PluginKind, directory: Path) -> Iterator[Path]:
    fields = {
        "project": names.project,
        "package": names.package,
        "plugin": names.plugin,
        "label": LABELS[kind],
        "alone": _evaluate_alone(names, kind),
        "extender": _describe_extender(names, kind),
        "definition": " -f deploy/definition.yaml" if kind is PluginKind.RESOURCE else "",
        "moorage": __version__,
    }
    for relative, template in _find_templates(kind).items():
        path = Path(*(names.package if part == "package" else part for part in relative.parts))
        if path.name in DOTTED:
            path = path.with_name(f".{path.name}")
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8")
        is_template = template.suffix == TEMPLATE
        filled = _FIELD.sub(lambda match: fields[match[1]], text) if is_template else text
        (directory / path).write_text(filled, encoding="utf-8")
        yield path


def _evaluate_alone(names: ProjectNames, kind: PluginKind) -> str:
    """Return the lines of a script that evaluate the plugin alone. Only filters and scores can be."""
    if kind not in (PluginKind.FILTER, PluginKind.SCORE, PluginKind.RESOURCE):
        return ""
    method = "score" if kind is PluginKind.SCORE else "filter"
    return f"""    print("{names.plugin} alone:")
    for row in session.{method}("web", "{names.plugin}"):  # pandas.DataFrame(...) turns the rows into a table
        print(" ", row)
"""


def _describe_extender(names: ProjectNames, kind: PluginKind) -> str:
    """Return the section of the README on extenders. kube-scheduler calls them only to filter, score and bind."""
    if kind in (PluginKind.QUEUE_SORT, PluginKind.RESERVE, PluginKind.POST_FILTER):
        return ""
    return f"""
## Use it with a stock kube-scheduler

```console
$ PYTHONPATH=src moorage extender --plugin {names.package}:{names.plugin} --kubeconfig ~/.kube/config
```

The output contains the section for the configuration of kube-scheduler. Extenders can filter, score and bind, but
not reserve.
"""


def _find_templates(kind: PluginKind) -> dict[Path, Path]:
    """Return the templates of a project by the path of their output."""
    templates = {BASE / manifest.name: manifest for manifest in (TEMPLATES / "common" / BASE).glob("*.yaml")}
    for directory in (TEMPLATES / "common", TEMPLATES / kind.value):
        for template in directory.rglob(f"*{TEMPLATE}"):
            path = template.relative_to(directory)
            if not path.is_relative_to(BASE):  # the Helm chart next to our manifests has its own templates
                templates[path.with_suffix("")] = template
    return templates
