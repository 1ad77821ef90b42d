"""The table of flags as a page: for --help, for /flagz, and for the documentation."""

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from moorage.scheduler.daemon.flags.kinds import BOOL, CERTIFICATES, GATES, INTEGERS, MAP, TEXTS, shown
from moorage.scheduler.daemon.flags.parsing import FlagValues
from moorage.scheduler.daemon.flags.table import FLAGS, GROUPS, Flag

WIDTH: Final = 100
LISTS: Final = (TEXTS, INTEGERS, MAP, CERTIFICATES)
INTRODUCTION: Final = """\
The Kubernetes scheduler in Python: finds a node for every pod that names one of its profiles, with
kube-scheduler's configuration, plugins and decisions. Takes the flags of kube-scheduler 1.37.

Usage:
  moorage scheduler [flags]
"""
DOCUMENT: Final = """\
# Flags of `moorage scheduler`

Generated from the table of flags by `python -m moorage.scheduler.daemon.flags.printing`; a test keeps it true.

The syntax is kube-scheduler's: `--name=value` or `--name value`, `--switch` or `--switch=false`, `-v=4`, `_` for `-`.
With `--config`, only the leader-election flags override the file, and the deprecated ones are ignored.
Flags marked *moot* are accepted, so that existing manifests work unchanged, and their having no effect is logged.
"""


def help_page() -> str:
    """Print all flags by group, as --help does."""
    parts = [INTRODUCTION]
    for group in GROUPS:
        flags = [flag for flag in FLAGS.values() if flag.group == group]
        parts.append(f"\n{group} flags:\n\n" + "".join(_help_entry(flag) for flag in flags))
    return "".join(parts)


def flagz_values(values: FlagValues) -> dict[str, str]:
    """Return every flag with its value, sorted, in Go's spelling: lists of any type are in brackets."""
    return {name: _flagz_value(FLAGS[name], values[name]) for name in sorted(values)}


def _flagz_value(flag: Flag, value: Any) -> str:
    if flag.kind is GATES:
        # Upstream puts the component before each gate, and for the default one that is nothing.
        assignments = [item.strip() for text in value for item in text.split(",")]
        return ",".join(item if ":" in item else f":{item}" for item in assignments if item)
    return f"[{shown(value)}]" if flag.kind in LISTS else shown(value)


def reference_page() -> str:
    """Print the documentation's page."""
    return DOCUMENT + "".join(f"\n## {group}\n\n{''.join(_table_rows(group))}" for group in GROUPS)


def _help_entry(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else "    "
    kind = "" if flag.kind is BOOL else f" {flag.kind.name}"
    text = flag.help + (f" (no effect: {flag.moot})" if flag.moot else "") + _default_note(flag)
    wrapped = textwrap.fill(text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return f"  {short}--{flag.name}{kind}\n{wrapped}\n"


def _default_note(flag: Flag) -> str:
    if flag.default in (False, "", (), {}, 0) or flag.kind.name == "version":
        return ""
    return f" (default {shown(flag.default)})"


def _table_rows(group: str) -> Iterator[str]:
    yield "| flag | type | default | meaning |\n|---|---|---|---|\n"
    for flag in FLAGS.values():
        if flag.group == group:
            name = f"`-{flag.short}`, `--{flag.name}`" if flag.short else f"`--{flag.name}`"
            default = f"`{shown(flag.default)}`" if flag.default not in ("", (), {}) else ""
            moot = f" *Moot: {flag.moot}.*" if flag.moot else ""
            yield f"| {name} | {flag.kind.name} | {default} | {_escape(flag.help)}{moot} |\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference_page())
