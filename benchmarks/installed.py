"""Compile Moorage and its dependencies, as pip does at installation."""

import re
from compileall import compile_dir, compile_file
from functools import cache
from importlib import metadata
from pathlib import Path

import moorage


@cache
def compile_program(package: Path | None = None) -> None:
    """Compile changed modules, even if PYTHONDONTWRITEBYTECODE would make each start compile all of them.

    Once per process: checking all files takes seconds. Dependencies may not be compiled either, because uv leaves this
    to the first start, which may lack write permission.
    """
    compile_dir(package or Path(moorage.__file__).parent, quiet=1)
    for name in _needed("moorage", set()):
        for file in {Path(str(file)).parts[0] for file in metadata.files(name) or ()}:
            path = Path(str(metadata.distribution(name).locate_file(file)))
            if path.is_dir():
                compile_dir(path, quiet=2)
            elif path.suffix == ".py":
                compile_file(path, quiet=2)


def _needed(name: str, visited: set[str]) -> set[str]:
    """Return the direct and indirect dependencies of a distribution, without extras."""
    for line in metadata.requires(name) or ():
        requirement = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        if "extra ==" not in line and requirement not in visited:
            try:
                metadata.distribution(requirement)
            except metadata.PackageNotFoundError:
                continue  # not for this system
            visited.add(requirement)
            _needed(requirement, visited)
    return visited
