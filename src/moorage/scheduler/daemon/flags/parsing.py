"""The command line as in kube-scheduler (pflag): values, defaults, errors and --help.

>>> values = parse(["--leader_elect=false", "-v=4", "--secure-port", "0"])
>>> values["leader-elect"], values["v"], values["secure-port"], values.is_given("config")
(False, 4, 0, False)
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.common.errors import InputError, did_you_mean
from moorage.scheduler.daemon.flags.table import BOOL, FLAGS, GROUPS, SHORT, Flag, format_value

COMMAND: Final = "kube-scheduler"
HELP_WIDTH: Final = 100
INTRODUCTION: Final = """\
A Kubernetes scheduler in Python, with the configuration, plugins and decisions of kube-scheduler.
It schedules pods that select one of its profiles by schedulerName.
The flags are those of kube-scheduler 1.37.

Usage:
  moorage scheduler [flags]
"""


CORRECTIONS: Final = {
    "strconv.ParseInt": "write an integer, such as --v=2",
    "strconv.ParseBool": "write true or false",
    "in duration": "write a number with a unit, such as 5s or 1m",
    "invalid duration": "write a number with a unit, such as 5s or 1m",
}
"""Corrections for upstream's messages that contain these texts."""


class UsageError(InputError):
    """An invalid command line, with upstream's message and a hint."""

    def __init__(self, problem: str, hint: str = "") -> None:
        hint = hint or next((text for part, text in CORRECTIONS.items() if part in problem), "--help lists the flags")
        super().__init__("moorage scheduler", problem, hint=hint)


CONFIG_FIELDS: Final = {
    "kubeconfig": "clientConnection.kubeconfig",
    "kube-api-qps": "clientConnection.qps",
    "kube-api-burst": "clientConnection.burst",
    "kube-api-content-type": "clientConnection.contentType",
    "profiling": "enableProfiling",
    "contention-profiling": "enableContentionProfiling",
}
"""The flags that are ignored with --config, as upstream ignores them, and the fields that replace them."""


class FlagValues(Mapping[str, Any]):
    """The value of every flag, by its name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._given = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else FLAGS[name].default

    def __iter__(self) -> Iterator[str]:
        return iter(FLAGS)

    def __len__(self) -> int:
        return len(FLAGS)

    def is_given(self, name: str) -> bool:
        """Return whether a flag was on the command line, even with its default."""
        return name in self._given

    def moot(self) -> Iterator[tuple[str, str]]:
        """Yield the flags on the command line that have no effect, and the reasons."""
        for name in self._given:
            if FLAGS[name].moot:
                yield name, FLAGS[name].moot
            elif name in CONFIG_FIELDS and self["config"]:
                yield name, f"--config is set; use {CONFIG_FIELDS[name]} in that file"


def parse(arguments: Sequence[str]) -> FlagValues:
    """Read a command line. Raise UsageError with its first error."""
    values: dict[str, Any] = {}
    argument_queue = list(arguments)
    extra: list[str] = []
    while argument_queue:
        argument = argument_queue.pop(0)
        if argument == "--":
            extra += argument_queue
            break
        if argument.startswith("--"):
            raw_name, equals, text = argument[2:].partition("=")
            if not raw_name or raw_name.startswith("-"):
                raise UsageError(f"bad flag syntax: {argument}")
            name = raw_name.replace("_", "-")
            flag = FLAGS.get(name)
            if flag is None:
                raise UsageError(
                    f"unknown flag: --{raw_name}",
                    REMOVED.get(name) or did_you_mean(f"--{name}", [f"--{flag_name}" for flag_name in FLAGS]),
                )
            _set(flag, f"--{name}", text if equals else _next_value(flag, f"--{name}", argument_queue), values)
        elif argument.startswith("-") and argument != "-":
            _short(argument, argument_queue, values)
        else:
            extra.append(argument)
    # Help and version take precedence over all other flags.
    if extra and not {"help", "version"} & values.keys():
        quoted = " ".join(f'"{word}"' for word in extra)
        raise UsageError(f'"{COMMAND}" does not take any arguments, got [{quoted}]')
    return FlagValues(values)


def _short(argument: str, remaining: list[str], values: dict[str, Any]) -> None:
    letters = argument[1:]
    while letters:
        flag = SHORT.get(letters[0])
        if flag is None:
            raise UsageError(f"unknown shorthand flag: {letters[0]!r} in {argument}")
        label, letters = f"-{letters[0]}, --{flag.name}", letters[1:]
        if letters.startswith("="):
            text, letters = letters[1:], ""
        elif letters and flag.kind.bare is None:
            text, letters = letters, ""
        else:
            text = _next_value(flag, label, remaining)
        _set(flag, label, text, values)


def _next_value(flag: Flag, label: str, remaining: list[str]) -> str:
    if flag.kind.bare is not None:
        return flag.kind.bare
    if not remaining:
        raise UsageError(f"flag needs an argument: {label}", f"write {label.rpartition(' ')[2]}=<{flag.kind.name}>")
    return remaining.pop(0)


def _set(flag: Flag, label: str, text: str, values: dict[str, Any]) -> None:
    try:
        value = flag.kind.read(text)
    except ValueError as error:
        raise UsageError(f'invalid argument "{text}" for "{label}" flag: {error}') from error
    join = flag.kind.join
    values[flag.name] = join(values[flag.name], value) if join and flag.name in values else value


def help_page() -> str:
    """Return the text of --help: all flags by group."""
    groups = (f"\n{group} flags:\n\n{''.join(map(_help_entry, flags))}" for group, flags in GROUPS.items())
    return INTRODUCTION + "".join(groups)


def _help_entry(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else "    "
    kind = "" if flag.kind is BOOL else f" {flag.kind.name}"
    text = flag.help + (f" (no effect: {flag.moot})" if flag.moot else "")
    if flag.shows_default and flag.default not in (False, "", (), {}, 0) and flag.kind.name != "version":
        text += f" (default {format_value(flag.default)})"
    paragraph = textwrap.fill(text, HELP_WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return f"  {short}--{flag.name}{kind}\n{paragraph}\n"


_CONVERT: Final = "removed; `moorage config convert` converts it to a configuration for --config"
_LOGS: Final = "removed; logs are written to stderr, which can be redirected"

REMOVED: Final = {
    "address": "removed; use --bind-address",
    "algorithm-provider": _CONVERT,
    "failure-domains": "removed; use topologyKey in affinity terms",
    "hard-pod-affinity-symmetric-weight": "removed; set hardPodAffinityWeight in the args of InterPodAffinity",
    "lock-object-name": "removed; use --leader-elect-resource-name",
    "lock-object-namespace": "removed; use --leader-elect-resource-namespace",
    "policy-config-file": _CONVERT,
    "policy-configmap": _CONVERT,
    "policy-configmap-namespace": _CONVERT,
    "port": "removed: insecure serving is not supported; use --secure-port",
    "scheduler-name": "removed; set schedulerName in a profile of --config",
    "use-legacy-policy-config": _CONVERT,
    **dict.fromkeys(
        (
            *("add-dir-header", "alsologtostderr", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size"),
            *("logtostderr", "one-output", "skip-headers", "skip-log-headers", "stderrthreshold"),
        ),
        _LOGS,
    ),
}
"""Replacements of flags that kube-scheduler had in previous releases."""
