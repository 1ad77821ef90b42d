"""Command-line parsing as in kube-scheduler (pflag): values, defaults and errors.

>>> values = parse(["--leader_elect=false", "-v=4", "--secure-port", "0"])
>>> values["leader-elect"], values["v"], values["secure-port"], values.given("config")
(False, 4, 0, False)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.common.errors import InputError, did_you_mean
from moorage.scheduler.daemon.flags.table import FLAGS, SHORT, Flag

COMMAND = "kube-scheduler"


class UsageError(InputError):
    """A command line that cannot be read; upstream's words, and a hint."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__("moorage scheduler", problem, hint=hint or "--help lists the flags")


class FlagValues(Mapping[str, Any]):
    """The value of every flag, by its name."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else FLAGS[name].default

    def __iter__(self) -> Iterator[str]:
        return iter(FLAGS)

    def __len__(self) -> int:
        return len(FLAGS)

    def given(self, name: str) -> bool:
        """Return whether a flag was on the command line, be it with its default."""
        return name in self._given

    def moot(self) -> Iterator[tuple[str, str]]:
        """Name the flags that were given but change nothing here, and why."""
        return ((name, FLAGS[name].moot) for name in self._given if FLAGS[name].moot)


def parse(arguments: Sequence[str]) -> FlagValues:
    """Read a command line; raise UsageError with its first error."""
    values: dict[str, Any] = {}
    remaining = list(arguments)
    extra: list[str] = []
    while remaining:
        argument = remaining.pop(0)
        if argument == "--":
            extra += remaining
            break
        if argument.startswith("--"):
            _long(argument, remaining, values)
        elif argument.startswith("-") and argument != "-":
            _short(argument, remaining, values)
        else:
            extra.append(argument)
    # Help and version take precedence over all other flags.
    if extra and not {"help", "version"} & values.keys():
        quoted = " ".join(f'"{word}"' for word in extra)
        raise UsageError(f'"{COMMAND}" does not take any arguments, got [{quoted}]')
    return FlagValues(values)


def _long(argument: str, remaining: list[str], values: dict[str, Any]) -> None:
    raw_name, equals, text = argument[2:].partition("=")
    if not raw_name or raw_name.startswith("-"):
        raise UsageError(f"bad flag syntax: {argument}")
    name = raw_name.replace("_", "-")
    flag = FLAGS.get(name)
    if flag is None:
        raise UsageError(f"unknown flag: --{raw_name}", instead_of(name) or did_you_mean(name, FLAGS))
    _set(flag, f"--{name}", _value(flag, f"--{name}", text if equals else None, remaining), values)


def _short(argument: str, remaining: list[str], values: dict[str, Any]) -> None:
    letters = argument[1:]
    while letters:
        flag = SHORT.get(letters[0])
        if flag is None:
            raise UsageError(f"unknown shorthand flag: {letters[0]!r} in {argument}")
        label, letters = f"-{letters[0]}, --{flag.name}", letters[1:]
        if letters.startswith("="):
            text, letters = letters[1:], ""
        elif flag.kind.bare is not None:
            text = flag.kind.bare
        elif letters:
            text, letters = letters, ""
        else:
            text = _value(flag, label, None, remaining)
        _set(flag, label, text, values)


def _value(flag: Flag, label: str, text: str | None, remaining: list[str]) -> str:
    if text is not None:
        return text
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


_CONVERT: Final = "removed; `moorage config convert` converts it to a configuration for --config"
_LOGS: Final = "removed; logs are written to stderr, which can be redirected"

_INSTEAD: Final = {
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
            "add-dir-header",
            "alsologtostderr",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "stderrthreshold",
        ),
        _LOGS,
    ),
}


def instead_of(flag: str) -> str:
    """Return a hint about the replacement of a flag; empty if no such flag ever existed."""
    return _INSTEAD.get(flag, "")
