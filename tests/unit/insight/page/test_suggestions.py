"""The background search for suggestions."""

import asyncio
from collections.abc import Mapping, Sequence

from moorage.insight.page.api_types import WaitingGroup
from moorage.insight.page.pending_groups import Suggestion
from moorage.insight.page.suggestions import SuggestionSearch


def test_failed_search_is_retried() -> None:
    async def go() -> None:
        searches: list[Sequence[str]] = []

        async def ask(pods: Sequence[str]) -> Mapping[str, Sequence[str]]:
            searches.append(pods)
            if len(searches) == 1:
                raise TimeoutError
            return {pods[0]: ("a larger node", "Insufficient cpu")}

        helping = SuggestionSearch(ask, retry_seconds=0.0)
        group = WaitingGroup("g", ("Insufficient cpu",), ("NodeResourcesFit",), 1, ("shop/a",), "no node", 0.0)
        for _ in range(2):
            version = helping.version
            helping.search_groups([group])
            async with asyncio.timeout(60):
                while (
                    helping.version == version
                ):  # a failure must notify the observers too; otherwise the search never is repeated
                    await asyncio.sleep(0)
            await helping.stop()
        assert (len(searches), helping.found["g"]) == (2, Suggestion("a larger node", "Insufficient cpu"))

    asyncio.run(go())
