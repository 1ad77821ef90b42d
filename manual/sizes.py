"""`make report`: print the largest files and the longest functions. They are a hint where to look, not a limit."""

import ast
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[1] / "src" / "moorage"
ROWS: Final = 15


def measure_files() -> list[tuple[int, str]]:
    """Return the number of lines of every module, the largest first."""
    sizes = ((len(path.read_text().splitlines()), str(path.relative_to(SOURCE))) for path in SOURCE.rglob("*.py"))
    return sorted(sizes, reverse=True)


def measure_functions() -> list[tuple[int, str]]:
    """Return the number of lines of every function, the longest first."""
    sizes = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sizes.append((lines, f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"))
    return sorted(sizes, reverse=True)


def main() -> None:
    """Print both lists."""
    files, functions = measure_files(), measure_functions()
    sys.stdout.write(
        f"{sum(lines for lines, _ in files):,} lines in {len(files)} files and {len(functions)} functions\n"
    )
    for title, sizes in (("Largest files", files), ("Longest functions", functions)):
        sys.stdout.write(f"\n{title}\n")
        for lines, name in sizes[:ROWS]:
            sys.stdout.write(f"{lines:6}  {name}\n")


if __name__ == "__main__":
    main()
