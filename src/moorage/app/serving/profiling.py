"""Profiling pages under /debug/pprof: where the time goes, what waits, what fills the memory."""

import asyncio
import cProfile
import gc
import io
import pstats
import sys
from collections import Counter
from typing import Final

from aiohttp import web

LONGEST_SECONDS: Final = 300.0
MOST_LINES: Final = 60

INDEX: Final = """\
/debug/pprof/

profile?seconds=10    where the time goes: functions by cumulated time
goroutine             tasks of the event loop, and where each of them waits
heap                  objects in memory, by type
cmdline               how the process was started
"""


def add_profiling(app: web.Application) -> None:
    """Register the pages."""
    app.router.add_get("/debug/pprof", _index)
    app.router.add_get("/debug/pprof/", _index)
    app.router.add_get("/debug/pprof/profile", _profile)
    app.router.add_get("/debug/pprof/goroutine", _tasks)
    app.router.add_get("/debug/pprof/heap", _heap)
    app.router.add_get("/debug/pprof/cmdline", _command_line)


async def _index(_: web.Request) -> web.Response:
    return web.Response(text=INDEX)


async def _profile(request: web.Request) -> web.Response:
    try:
        seconds = min(float(request.query.get("seconds", "30")), LONGEST_SECONDS)
    except ValueError:
        return web.Response(text="seconds must be a number\n", status=400)
    profile = cProfile.Profile()
    try:
        profile.enable()
    except ValueError:
        return web.Response(text="a profile is being taken already\n", status=409)
    try:
        await asyncio.sleep(seconds)
    finally:
        profile.disable()
    written = io.StringIO()
    pstats.Stats(profile, stream=written).sort_stats("cumulative").print_stats(MOST_LINES)
    return web.Response(text=written.getvalue())


async def _tasks(_: web.Request) -> web.Response:
    written = io.StringIO()
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    written.write(f"{len(tasks)} tasks\n")
    for task in tasks:
        written.write(f"\n{task.get_name()}\n")
        task.print_stack(limit=8, file=written)
    return web.Response(text=written.getvalue())


async def _heap(_: web.Request) -> web.Response:
    counts = Counter(type(thing).__qualname__ for thing in gc.get_objects())
    lines = [f"{count:10d} {name}" for name, count in counts.most_common(MOST_LINES)]
    return web.Response(text="\n".join([f"{sum(counts.values()):10d} objects", *lines, ""]))


async def _command_line(_: web.Request) -> web.Response:
    return web.Response(text="\0".join(sys.argv))
