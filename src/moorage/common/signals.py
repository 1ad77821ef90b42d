"""Signals that stop a program."""

import asyncio
import signal


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set. Call it on the running event loop."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping
