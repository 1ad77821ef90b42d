"""Profiling pages under /debug/pprof: CPU time, waiting tasks and memory."""

import asyncio
import cProfile
import gc
import io
import math
import pstats
import sys
from collections import Counter
from typing import Final

from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.daemon.serving.routing import Router, text_reply

MAX_SECONDS: Final = 300.0
MAX_LINES: Final = 60

INDEX: Final = """\
/debug/pprof/

profile?seconds=10    CPU time of functions, cumulative
goroutine             tasks of the event loop, with the position of each
heap                  objects in memory, by type
cmdline               how the process was started
"""


def add_profiling(router: Router) -> None:
    """Register the pages."""
    router.add("GET", "/debug/pprof", _index)
    router.add("GET", "/debug/pprof/", _index)
    router.add("GET", "/debug/pprof/profile", _profile)
    router.add("GET", "/debug/pprof/goroutine", _tasks)
    router.add("GET", "/debug/pprof/heap", _heap)
    router.add("GET", "/debug/pprof/cmdline", _command_line)


async def _index(_: HttpRequest) -> Reply:
    return text_reply(INDEX)


async def _profile(request: HttpRequest) -> Reply:
    try:
        seconds = float(request.query.get("seconds", "30"))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:  # which is false of nan, too
        return text_reply("seconds must be a number\n", 400)
    seconds = min(seconds, MAX_SECONDS)
    profile = cProfile.Profile()
    try:
        profile.enable()
    except ValueError:
        return text_reply("another profile is being recorded\n", 409)
    try:
        await asyncio.sleep(seconds)
    finally:
        profile.disable()
    buffer = io.StringIO()
    pstats.Stats(profile, stream=buffer).sort_stats("cumulative").print_stats(MAX_LINES)
    return text_reply(buffer.getvalue())


async def _tasks(_: HttpRequest) -> Reply:
    buffer = io.StringIO()
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    buffer.write(f"{len(tasks)} tasks\n")
    for task in tasks:
        buffer.write(f"\n{task.get_name()}\n")
        task.print_stack(limit=8, file=buffer)
    return text_reply(buffer.getvalue())


async def _heap(_: HttpRequest) -> Reply:
    counts = Counter(type(item).__qualname__ for item in gc.get_objects())
    lines = [f"{count:10d} {name}" for name, count in counts.most_common(MAX_LINES)]
    return text_reply("\n".join([f"{sum(counts.values()):10d} objects", *lines, ""]))


async def _command_line(_: HttpRequest) -> Reply:
    return text_reply("\0".join(sys.argv))
