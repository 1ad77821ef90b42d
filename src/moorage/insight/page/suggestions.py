"""What would help whom: looked for in the background, one example of each group, the largest groups first."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from moorage.common.errors import MoorageError
from moorage.insight.page.api_types import WaitingGroup
from moorage.insight.page.pending_groups import NOT_TRIED, UNTOLD, Suggestion

MAX_HELPED: Final = 12
"""So many groups are helped by themselves; of the others a pod's own page says what would."""
MAX_REMEMBERED: Final = 500
RETRY_SECONDS: Final = 10.0
"""After a question that was not answered, so long nothing is asked."""

log = structlog.get_logger(__name__)

FindSuggestions = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Answers for each of some pods with the first change that would let it run; empty if none was found."""


class SuggestionSearch:
    """Remembers what helps each group, and looks for what is not known yet; one search at a time."""

    def __init__(self, ask: FindSuggestions, retry_seconds: float = RETRY_SECONDS) -> None:
        self._ask, self._retry_seconds = ask, retry_seconds
        self._looking: asyncio.Task[None] | None = None
        self.found: dict[str, Suggestion] = {}
        self.version = 0

    def look_at(self, groups: Sequence[WaitingGroup]) -> None:
        """Begin to look for what helps these groups, unless a search is under way."""
        wanted = [group for group in groups[:MAX_HELPED] if group.id not in self.found and _can_be_helped(group)]
        if wanted and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look(wanted), name="looking for help")

    async def _look(self, groups: Sequence[WaitingGroup]) -> None:
        for group in groups:
            example = group.examples[0]
            try:
                answers = await self._ask([example])
            except (MoorageError, OSError, TimeoutError) as error:
                log.warning("no help can be looked for", pod=example, error=str(error))
                await asyncio.sleep(self._retry_seconds)
                break
            if len(self.found) >= MAX_REMEMBERED:
                self.found.clear()
            self.found[group.id] = Suggestion(answers.get(example, ""))
            self.version += 1
        self.version += 1  # whoever asks then has the rest looked for: what came meanwhile, or all after an error

    def forget(self) -> None:
        """Look anew: the cluster has changed."""
        self.found.clear()

    async def stop(self) -> None:
        """Give a search up."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking


def _can_be_helped(group: WaitingGroup) -> bool:
    return bool(group.message or group.plugins) and group.reasons not in ((NOT_TRIED,), (UNTOLD,))
