"""The options of a command line, as the daemon reads them."""

from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.options import Options, complete_options


def load_options(arguments: list[str]) -> Options:
    """Read a command line and the files it names."""
    return complete_options(parse(arguments))
