"""Our program as its users have it: compiled, with all that it needs, since pip compiles what it installs."""

import re
from compileall import compile_dir, compile_file
from importlib import metadata
from pathlib import Path

import moorage


def compile_program(package: Path | None = None) -> None:
    """Compile what has changed, also where PYTHONDONTWRITEBYTECODE would have every start compile all of it anew.

    What it depends on may not be compiled either: uv leaves that to the first start, which then may not write it.
    """
    compile_dir(package or Path(moorage.__file__).parent, quiet=1)
    for name in _needed("moorage", set()):
        for file in {Path(str(file)).parts[0] for file in metadata.files(name) or ()}:
            found = Path(str(metadata.distribution(name).locate_file(file)))
            if found.is_dir():
                compile_dir(found, quiet=2)
            elif found.suffix == ".py":
                compile_file(found, quiet=2)


def _needed(name: str, known: set[str]) -> set[str]:
    """Return the distributions that one depends on without extras, directly or not."""
    for line in metadata.requires(name) or ():
        other = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        if "extra ==" not in line and other not in known:
            try:
                metadata.distribution(other)
            except metadata.PackageNotFoundError:
                continue  # not for this system
            known.add(other)
            _needed(other, known)
    return known
