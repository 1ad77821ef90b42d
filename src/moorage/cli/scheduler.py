"""`moorage scheduler`: the daemon. It parses its own command line, in kube-scheduler's syntax."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.cli.startup import import_numpy, start_lightly

if TYPE_CHECKING:
    from moorage.scheduler.daemon.flags.parsing import FlagValues
    from moorage.scheduler.daemon.services import ServiceFactory

NAME = "scheduler"


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    # This must be first: parsing flags imports structlog, which would import rich.
    start_lightly(with_numpy=False)
    from moorage.scheduler.daemon.flags.parsing import parse

    flags = parse(arguments)
    if flags["help"]:
        from moorage.scheduler.daemon.flags.parsing import help_page

        sys.stdout.write(help_page())
    elif flags["version"] != "false":
        from moorage.common.version import version_info, version_line

        sys.stdout.write(f"{json.dumps(version_info()) if flags['version'] == 'raw' else version_line()}\n")
    else:
        return _start(flags)
    return 0


def _start(flags: "FlagValues") -> int:
    from moorage.scheduler.daemon.log_lines import configure_logs
    from moorage.scheduler.daemon.options import complete_options, logging_options

    configure_logs(logging_options(flags))
    if path := flags["write-config-to"]:
        from moorage.common.user_files import not_writable
        from moorage.scheduler.config import completed_view, to_yaml

        try:
            Path(path).write_text(to_yaml(completed_view(complete_options(flags).config)), encoding="utf-8")
        except OSError as error:
            raise not_writable(path, error, where="--write-config-to") from error
        return 0
    # Both processes need these modules. The supervisor imports nothing more after the fork.
    from moorage.common.memory import relax_gc
    from moorage.kube.client.kubeconfig import is_json
    from moorage.scheduler.daemon.supervisor.process import Ends, fork_scheduler
    from moorage.scheduler.daemon.supervisor.supervisor import supervise

    if flags["config"] or (flags["kubeconfig"] and not is_json(flags["kubeconfig"])):
        import_module("moorage.kube.api.documents")

    if flags["reload"]:
        # Until a handler is installed, the signal would end the process.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def start_supervisor(ends: Ends) -> int:
        if not flags["ui"]:
            return supervise(ends)
        from moorage.insight import with_page_events

        return supervise(ends, with_page_events)

    def schedule(ends: Ends) -> int:
        relax_gc()  # start-up of the supervisor is over. That of the scheduler begins
        import_numpy()
        from moorage.scheduler.daemon.daemon import run_daemon

        options = complete_options(flags)
        if flags["ui"]:
            from moorage.insight import allow_page

            options = allow_page(options)
        return run_daemon(options, ends, _insight_services(flags))

    return fork_scheduler(start_supervisor, schedule)


def _insight_services(flags: "FlagValues") -> "Iterator[ServiceFactory]":
    if flags["ui"]:
        from moorage.insight import SchedulerPage

        yield SchedulerPage
    if flags["shadow"]:
        from moorage.insight import SchedulerShadow

        yield SchedulerShadow
    if flags["explain-events"]:
        from moorage.insight import ExplainEventsService

        yield ExplainEventsService
