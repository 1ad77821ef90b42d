"""Options that several commands share, and how commands turn them into policies, clusters and progress bars."""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from enum import Enum, StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from moorage.common.errors import InputError, MoorageError, did_you_mean
from moorage.common.version import NEWEST, OLDEST, RELEASE

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from moorage.insight import LoadedCluster, ShowReading
    from moorage.kube.features import FeatureGates as KubeFeatures
    from moorage.scheduler.decisions.attempts import ShowProgress
    from moorage.scheduler.wiring.policy import Policy

NOTE_SECONDS: Final = 10.0
"""Without a terminal, the progress of a long simulation is printed this often."""


UsageError: Any = typer.BadParameter.__base__
"""The usage errors of typer: those of click, or of the copy of click that newer versions contain."""


def describe_usage_error(error: Any) -> InputError:
    """Return a usage error of typer in the format of Moorage's errors."""
    command = error.ctx.command_path if error.ctx else "moorage"
    hint = f"run '{command} --help' for its arguments and options"
    match type(error).__name__:
        case "NoSuchOption":
            names = [name for param in error.ctx.command.params for name in (*param.opts, *param.secondary_opts)]
            problem, hint = f"unknown option: {error.option_name}", did_you_mean(error.option_name, names) or hint
        case "MissingParameter":
            problem = f"missing {error.param.param_type_name}: {_name_param(error.param)}"
        case "BadParameter" if error.param is not None:
            problem = error.message.removeprefix("Value error, ").rstrip(".")
            return InputError(_name_param(error.param), problem)
        case "BadOptionUsage":
            needs_value = "requires an argument" in error.message
            return InputError(error.option_name, "needs a value" if needs_value else "takes no value", hint=hint)
        case _:
            problem = f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}"
    return InputError(command, problem, hint=hint)


def _name_param(param: Any) -> str:
    return str(param.metavar if param.param_type_name == "argument" else param.opts[0])


class PlainValues:
    """Converts texts, paths and absent values without pydantic, with which newer versions of typer validate options.

    Importing pydantic takes a fifth of the CPU of a short command. typer converts all other values.
    """

    def __init__(self, param: Any) -> None:
        self._build = param.get_runtime_param
        self._annotation = param.type_descriptor.annotation
        self._has_parser = param.type_descriptor.parameter_info.parser is not None
        self._of_typer: Any = None

    @classmethod
    def convert_values(cls, params: Iterable[Any]) -> None:
        """Convert the values of these parameters, if this version of typer uses pydantic."""
        for param in params:
            if getattr(param, "_runtime_param", param) is None:
                param._runtime_param = cls(param)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter; called by typer."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if not self._has_parser:
            if self._annotation is str and isinstance(value, str):
                return value
            if self._annotation is Path and isinstance(value, str):
                return Path(value)
            if self._annotation == list[str] and all(isinstance(item, str) for item in value):
                return list(value)
            if isinstance(value, Enum) and isinstance(value, self._annotation):
                return value
        if self._of_typer is None:
            param._runtime_param = None
            self._of_typer = self._build()
        return self._of_typer.coerce(value, param=param, ctx=ctx)


class Command(TyperCommand):
    """A command that lists its arguments by metavar: some versions of typer print `{POD}` or `<str>` in the help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line. Raise InputError for unexpected arguments."""
        ctx.allow_extra_args = True
        PlainValues.convert_values(self.get_params(ctx))
        try:
            extra = super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = ctx
            raise
        if extra and not ctx.resilient_parsing:
            usage = ctx.get_usage().removeprefix("Usage: ")
            raise InputError(ctx.command_path, f"unexpected argument: {extra[0]}", hint=f"write {usage}")
        return extra

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the tables of arguments and options."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                if param.param_type_name == "argument":
                    rows["Arguments"].append((str(param.metavar), record[1]))
                else:
                    rows["Options"].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class CommandGroup(TyperGroup):
    """A group that lists its commands with complete summaries, which typer would cut to one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line. Without arguments, print the help and exit with code 2."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(2)
        PlainValues.convert_values(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a command line. Raise InputError for an unknown one."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            nested = {
                name: f"{group} {name}"
                for group, command in self.commands.items()
                for name in getattr(command, "commands", ())
            }
            is_nested = f"did you mean '{nested[args[0]]}'?" if args[0] in nested else ""
            usage = f"run '{ctx.command_path} --help' for the commands"
            hint = is_nested or did_you_mean(args[0], self.commands) or usage
            raise InputError(ctx.command_path, f"unknown command: {args[0]}", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        self.write_commands(formatter, "Commands", self.commands)

    def write_commands(self, formatter: Any, title: str, names: Iterable[str]) -> None:
        """Write one section of commands."""
        with formatter.section(title):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=1000)) for name in names])


def make_group(help_text: str, cls: type[CommandGroup] = CommandGroup) -> typer.Typer:
    """Return an empty group of commands.

    Help and usage errors are plain: importing rich for them would double the start-up time.
    """
    return typer.Typer(
        cls=cls,
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 100},
    )


class AnswerFormat(StrEnum):
    """Output formats of short results."""

    TEXT = "text"
    JSON = "json"


def with_extension(*extensions: str) -> Callable[[Path | None], Path | None]:
    """Return a callback that rejects an output file with an unknown extension, before the command does any work."""

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix not in extensions:
            choices = " or ".join(filter(None, (", ".join(extensions[:-1]), extensions[-1])))
            raise typer.BadParameter(f"{path}: unknown file extension; use {choices}")
        return path

    return check


def number(low: int, high: int | None = None) -> Callable[[object], int]:
    """Return a parser of integers in a range."""
    expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def parse(text: object) -> int:
        try:
            value = int(str(text))
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise typer.BadParameter(f"{text} is not {expected}")
        return value

    return parse


TRACE_FILE = with_extension(".jsonl", ".csv", ".parquet")
TRACE_HELP = "Output file; the extension selects the format (.jsonl, .csv, .parquet)."

Answer = Annotated[AnswerFormat, typer.Option("--output", "-o", help="Output format.")]
FeatureGates = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates to set; may be repeated."),
]
EmulatedVersion = Annotated[
    str,
    typer.Option(
        "--emulated-version",
        metavar="VERSION",
        help=f"Kubernetes release to emulate: {OLDEST} to {NEWEST} (default: {RELEASE}).",
    ),
]
MinCompatibilityVersion = Annotated[
    str,
    typer.Option(
        "--min-compatibility-version",
        metavar="VERSION",
        help="Oldest Kubernetes version of the API servers that the scheduler must work with (default: the release "
        "before the emulated one).",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:NAME", help="Plugin to load, a class or a function; may be repeated."),
]
PluginTimeout = Annotated[
    str,
    typer.Option(
        "--plugin-timeout",
        metavar="DURATION",
        help="Timeout of asynchronous plugin calls (default: call_timeout of the plugin class, or 60s).",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Scheduler configuration (default: kube-scheduler's defaults, with each --plugin enabled).",
    ),
]
LiveConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Scheduler configuration (default: kube-scheduler's defaults, with each --plugin enabled; for a live "
        "cluster, the configuration of its scheduler if it is readable).",
    ),
]
ClusterFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Kubernetes objects of the cluster, YAML or JSON; - reads standard input; may be repeated.",
    ),
]
Snapshot = Annotated[str, typer.Option("--snapshot", metavar="FILE", help="Cluster saved by `moorage snapshot`.")]
DecisionLog = Annotated[
    Path | None,
    typer.Option("--decision-log", metavar="FILE", help="Decision log written by `moorage scheduler --decision-log`."),
]
Kubeconfig = Annotated[
    str,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Kubeconfig of the live cluster (default: the one that kubectl uses)."
    ),
]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig to use.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the progress bar or notes.")]
Address = Annotated[str, typer.Option("--address", metavar="IP", help="Address to listen on.")]
Port = Annotated[
    int, typer.Option("--port", metavar="PORT", parser=number(0, 65535), help="Port to listen on; 0 picks a free one.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="File of accepted bearer tokens, one per line."),
]
CertFile = Annotated[
    Path | None, typer.Option("--tls-cert-file", metavar="FILE", help="Certificate to serve HTTPS with.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--tls-private-key-file", metavar="FILE", help="Private key of the certificate.")
]
History = Annotated[
    Path | None,
    typer.Option(
        "--history", metavar="FILE", help="Trace (durations and arrivals of pods) or decision log (arrivals only)."
    ),
]
ClassLabel = Annotated[
    str,
    typer.Option(
        *("--class", "--class-label"),
        metavar="LABEL",
        help="Label whose value is the class of a pod (default: the namespace). Forecasts draw durations and arrivals "
        "per class.",
    ),
]
RunFor = Annotated[
    str,
    typer.Option("--for", metavar="DURATION", help="Stop after this time, such as 30m (default: run until Ctrl-C)."),
]
SimulateFor = Annotated[
    str,
    typer.Option("--for", metavar="DURATION", help="Limit of the virtual time, such as 90s or 1h (default: 24h)."),
]


def parse_level(text: str) -> int:
    """Parse a log level as kube-scheduler does: -v=4 equals -v 4."""
    number = text.removeprefix("=")
    if not number.isdecimal():
        raise typer.BadParameter(f"{text!r} is not a log level; use a number from 0 to 10, such as -v 4")
    return int(number)


Verbosity = Annotated[
    int | None,
    typer.Option("-v", "--v", parser=parse_level, metavar="LEVEL", help="Log verbosity as in kube-scheduler, 0 to 10."),
]


def configure_log_level(level: int | None) -> None:
    """Log at a verbosity, plugins included. Without one, only warnings and errors are logged."""
    if level is not None:
        from moorage.scheduler.daemon.log_lines import configure_logs
        from moorage.scheduler.daemon.options import LoggingOptions

        configure_logs(LoggingOptions(verbosity=level))


def configure_trial_logs(level: int | None) -> None:
    """Log at a verbosity. Without one, log nothing: failures of a trial are part of its result."""
    if level is not None:
        configure_log_level(level)
        return
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class GateFlags(NamedTuple):
    """The values of --feature-gates, --emulated-version and --min-compatibility-version."""

    gates: list[str] | None = None
    emulated: str = ""
    compatible: str = ""

    def choose(self, *, to_schedule: bool = True) -> "KubeFeatures":
        """Return the feature gates in force. Without ``to_schedule``, permanent features may be off."""
        from moorage.scheduler.daemon.feature_gates import all_gates, choose_gates

        versions = [[self.emulated] if self.emulated else [], [self.compatible] if self.compatible else []]
        return (
            choose_gates(self.gates or (), *versions).features
            if to_schedule
            else all_gates(self.gates or (), *versions)
        )


_DEFAULT_GATES: Final = GateFlags()


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the last parameter of a command, a named tuple, by one option for each of its fields.

    Several commands can then have the same options without repeating them.
    """
    signature = inspect.signature(command)
    *own, last = signature.parameters.values()
    fields = get_type_hints(last.annotation, include_extras=True)
    defaults = last.annotation._field_defaults
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
        for name, annotation in fields.items()
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        group = last.annotation(**{name: values.pop(name) for name in fields})
        command(**values, **{last.name: group})

    run.__dict__["__signature__"] = signature.replace(parameters=[*own, *shared])
    run.__annotations__ = {item.name: item.annotation for item in (*own, *shared)}
    return run


def load_live_policy(
    config: Path | None, cluster: "LoadedCluster", plugins: list[str] | None, gates: GateFlags, *, quiet: bool
) -> "Policy":
    """Return the policy of the options. Without --config, that of the scheduler in a live cluster if it is known."""
    if config is None and cluster.config_source:
        correction = (
            "--config FILE sets another"
            if cluster.config
            else "if the scheduler runs with --config or --plugin, pass the same flags"
        )
        print_note(f"{cluster.config_source}; {correction}", quiet=quiet)
    if config is None and cluster.config:
        try:
            return load_policy(cluster.config, plugins, gates)
        except MoorageError as error:
            print_note(f"the configuration in the cluster cannot be used, assuming the default: {error}", quiet=quiet)
    return load_policy(config, plugins, gates)


def load_policy(
    config: Path | str | None, plugins: list[str] | None, gates: GateFlags = _DEFAULT_GATES, plugin_timeout: str = ""
) -> "Policy":
    """Return the scheduling policy of the options. Without a configuration, every --plugin is enabled."""
    from moorage.scheduler.framework.registry import Registry
    from moorage.scheduler.wiring import policy

    requested = Registry()
    with prints_to_stderr():
        for path in plugins or ():
            requested.register_path(path)
        registry = policy.collect_plugins(requested.values())
    registry.call_timeout = parse_seconds(plugin_timeout, "--plugin-timeout") or registry.call_timeout
    return policy.load_policy(registry, config, features=gates.choose(), enabled=requested.values())


def prints_to_stderr() -> AbstractContextManager[Any]:
    """Redirect `print` in plugins to standard error in a ``with`` block: standard output is the command's result."""
    return redirect_stdout(sys.stderr)


def load_cluster(
    files: list[str] | None,
    snapshot: str,
    kubeconfig: str,
    context: str,
    *,
    quiet: bool = False,
    is_live: bool = False,
) -> "LoadedCluster":
    """Read the cluster that the options name, and print notes about it to stderr.

    ``is_live`` is for commands without -f and --snapshot.
    """
    from moorage import insight

    source = insight.ClusterSource(files or (), snapshot, kubeconfig, context, is_live)
    with reading_progress(quiet=quiet) as progress:
        cluster = insight.load_cluster(source, progress=progress)
    if cluster.note:
        print_note(cluster.note, quiet=quiet)
    return cluster


def parse_seconds(text: str, option: str) -> float | None:
    """Parse the duration of an option. Return ``None`` if it is not set. Raise InputError unless it is positive."""
    from moorage.common.durations import parse_duration

    if not text:
        return None
    seconds = parse_duration(text, where=option)
    if seconds <= 0:
        hint = "use a duration such as 30s, 1m30s or 500ms"
        raise InputError(option, f"{text!r} is not a positive duration", hint=hint)
    return seconds


def print_note(note: str, *, quiet: bool) -> None:
    """Print a note to standard error."""
    if not quiet:
        typer.echo(f"note: {note}", err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    print_chunks((msgspec.json.format(msgspec.json.encode(value), indent=2), b"\n"))


def print_chunks(chunks: Iterable[bytes]) -> None:
    """Print a text that may be large. An unbuffered standard output writes at most 2 GiB per call."""
    output = sys.stdout.buffer
    for chunk in chunks:
        unwritten = memoryview(chunk)
        while unwritten:
            unwritten = unwritten[output.write(unwritten) :]


@contextmanager
def progress_bar(*, quiet: bool) -> "Iterator[Progress | None]":
    """Show a transient progress bar on standard error, or ``None`` with --quiet, or if that is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def reading_progress(*, quiet: bool) -> "Iterator[ShowReading]":
    """Show a progress bar for each kind that is read."""
    with progress_bar(quiet=quiet) as bar:
        tasks: dict[str, TaskID] = {}

        def show(kind: str, completed: int, total: int) -> None:
            if bar is not None:
                if kind not in tasks:
                    tasks[kind] = bar.add_task(kind, total=total)
                bar.update(tasks[kind], completed=completed, total=total)

        yield show


@contextmanager
def simulation_progress(*, quiet: bool) -> "Iterator[ShowProgress | None]":
    """Show a progress bar with the number of decided pods and the virtual time. Without a terminal, print notes."""
    last = time.monotonic()

    def print_progress(completed: int, total: int, seconds: float) -> None:
        nonlocal last
        if time.monotonic() - last > NOTE_SECONDS:
            last = time.monotonic()
            print_note(
                f"{completed} of {total} pods scheduled after {format_seconds(seconds)} of virtual time", quiet=quiet
            )

    from moorage.cluster import format_seconds

    with progress_bar(quiet=quiet) as bar:
        if bar is None:
            yield None if quiet else print_progress
            return
        task = bar.add_task("scheduling", total=None)
        yield lambda done, total, seconds: bar.update(
            task, completed=done, total=total, description=f"scheduling, after {format_seconds(seconds)}"
        )
