"""The process between a client and its credential program: it ends the program and its children with the client."""

import sys
from collections.abc import Sequence
from typing import Final

# Run in isolated mode, without moorage: it starts in a few milliseconds. A preexec_fn could not do this, because the
# kernel signals only the direct child of a process that is killed, and not its children.
_GUARD: Final = """
import ctypes, os, signal, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
watched = {signal.SIGTERM, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, watched)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != parent:
    os._exit(1)
child = os.fork()
if not child:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, str(error).encode())
    os._exit(127)
os.closerange(1, 3)  # the output ends with the program
while True:
    if signal.sigwait(watched) == signal.SIGTERM:
        os.killpg(0, signal.SIGKILL)
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
"""


def guarded_command(parent: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs ``command``, and kills its process group when the parent ends.

    Start it in a new session: it must be the leader of its process group.
    """
    return [sys.executable, "-I", "-S", "-c", _GUARD, str(parent), *command]
