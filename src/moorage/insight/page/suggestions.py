"""Suggested changes for groups of pending pods: a background search for one example of each group, largest first."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from moorage.common.background import start_task
from moorage.common.errors import MoorageError
from moorage.insight.page.api_types import WaitingGroup
from moorage.insight.page.pending_groups import NO_REASON, NOT_TRIED, Suggestion

MAX_GROUPS: Final = 12
"""Number of groups with automatic suggestions. The page of a pod computes them for others."""
MAX_CACHED: Final = 500
RETRY_SECONDS: Final = 10.0
"""Pause in seconds after a failed question."""

log = structlog.get_logger(__name__)

FindSuggestions = Callable[[Sequence[str]], Awaitable[Mapping[str, Sequence[str]]]]
"""Returns the first suggested change and the decisive reason for each pod, or empty texts."""


class SuggestionSearch:
    """Caches the suggestions of groups, and searches for missing ones, one search at a time."""

    def __init__(self, ask: FindSuggestions, retry_seconds: float = RETRY_SECONDS) -> None:
        self._ask, self._retry_seconds = ask, retry_seconds
        self._task: asyncio.Task[None] | None = None
        self.found: dict[str, Suggestion] = {}
        self.version = 0

    def search_groups(self, groups: Sequence[WaitingGroup]) -> None:
        """Start a search for groups without a suggestion, unless one is running."""

        def can_be_fixed(group: WaitingGroup) -> bool:
            return bool(group.message or group.plugins) and group.reasons not in ((NOT_TRIED,), (NO_REASON,))

        open_groups = [group for group in groups[:MAX_GROUPS] if group.id not in self.found and can_be_fixed(group)]
        if open_groups and (self._task is None or self._task.done()):
            self._task = start_task(self._search(open_groups), "suggestions")

    async def _search(self, groups: Sequence[WaitingGroup]) -> None:
        for group in groups:
            example = group.examples[0]
            try:
                answers = await self._ask([example])
            except (MoorageError, OSError, TimeoutError) as error:
                log.warning("search for changes failed", pod=example, error=str(error))
                await asyncio.sleep(self._retry_seconds)
                break
            if len(self.found) >= MAX_CACHED:
                self.found.clear()
            self.found[group.id] = Suggestion(*answers.get(example, ("",)))
            self.version += 1
        self.version += 1  # the next state starts a search for new groups, or for all after an error

    def forget(self) -> None:
        """Discard all suggestions: the cluster has changed."""
        self.found.clear()

    async def stop(self) -> None:
        """Cancel the search."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
