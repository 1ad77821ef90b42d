"""Our program as its users have it: compiled, since pip compiles what it installs."""

from compileall import compile_dir
from pathlib import Path

import moorage


def compile_program(package: Path | None = None) -> None:
    """Compile what has changed, also where PYTHONDONTWRITEBYTECODE would have every start compile all of it anew."""
    compile_dir(package or Path(moorage.__file__).parent, quiet=1)
