"""Write a manual page per command, from the same declarations as `--help`: `make man`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from moorage import __version__
from release.dist import DIST

DIRECTORY: Final = DIST / "man"


def main() -> None:
    """Write the pages of all commands."""
    from moorage.cli.commands import make_app

    DIRECTORY.mkdir(parents=True, exist_ok=True)
    pages = dict(write_pages(get_command(make_app()), "moorage"))
    for name, text in pages.items():
        (DIRECTORY / f"{name}.1").write_text(text, encoding="utf-8")
    print(f"{len(pages)} manual pages in {Path(*DIRECTORY.parts[-2:])}")


def write_pages(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the page of a command and of its subcommands."""
    context = command.make_context(name, [], resilient_parsing=True)
    subcommands = {key: part for key, part in getattr(command, "commands", {}).items() if not part.hidden}
    page, text = name.replace(" ", "-"), plain(command.help or command.short_help or "")
    summary = text.split("\n")[0].rstrip(".") or name
    parts = [
        f'.TH "{page.upper()}" "1" "" "Moorage {__version__}" "Moorage Manual"',
        f".SH NAME\n{escape(page)} \\- {escape(summary)}",
        f".SH SYNOPSIS\n.B {escape(name)}\n{escape(' '.join(command.collect_usage_pieces(context)))}",
        f".SH DESCRIPTION\n{paragraphs(text or summary)}",
    ]
    records = [record for part in command.get_params(context) if (record := part.get_help_record(context))]
    if records:
        parts.append(".SH OPTIONS\n" + "\n".join(entry(*record) for record in records))
    if subcommands:
        lines = [entry(f"{page}-{key}(1)", plain(part.get_short_help_str(200))) for key, part in subcommands.items()]
        parts.append(".SH COMMANDS\n" + "\n".join(lines))
    yield page, "\n".join(parts) + "\n"
    for key, part in subcommands.items():
        yield from write_pages(part, f"{name} {key}")


def entry(term: str, text: str) -> str:
    """Return a tagged paragraph."""
    return f".TP\n\\fB{escape(plain(term))}\\fR\n{paragraphs(plain(text))}"


def paragraphs(text: str) -> str:
    """Return text with its empty lines as paragraph breaks."""
    blocks = [escape(block.strip()) for block in re.split(r"\n\s*\n", text) if block.strip()]
    return "\n.PP\n".join(blocks) or "\\&"


def plain(text: str) -> str:
    """Remove the markup of terminals and of docstrings."""
    return re.sub(r"\x1b\[[0-9;]*m|\[/?(?:bold|dim|green|cyan|yellow|red|blue)\]|[\b\f]|`", "", text).strip()


def escape(text: str) -> str:
    """Escape what roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
