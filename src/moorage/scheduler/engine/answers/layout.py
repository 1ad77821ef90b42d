"""Who is asked where, given which plugins keep their answers: worked out once for each such set of plugins."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.common.arrays import IntType
from moorage.scheduler.engine.profile import Profile, normalizes
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin, PreFilterPlugin, PreScorePlugin, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE

MAX_NARROW: Final = 1 << 31


class Scorer(NamedTuple):
    """A score plugin that keeps its answer: the place of that among the parts, and what it counts."""

    at: int
    plugin: ScorePlugin
    weight: int
    normalizes: bool


class FreshFilter(NamedTuple):
    """A filter that is asked in every cycle, and who after it keeps its answer."""

    plugin: FilterPlugin
    kept_after: frozenset[str]


class Layout:
    """The places of kept answers (parts) at each extension point, and the plugins that are asked in every cycle."""

    def __init__(self, profile: Profile, keeping: Sequence[Plugin]) -> None:
        at = {plugin.name: place for place, plugin in enumerate(keeping)}
        scoring = {plugin.name for plugin in profile.score}
        self.pre_filters: tuple[tuple[PreFilterPlugin, int | None], ...] = tuple(
            (plugin, at.get(plugin.name)) for plugin in profile.pre_filter
        )
        self.filters = tuple(at[plugin.name] for plugin in profile.filter if plugin.name in at)
        self.scorers = tuple(
            Scorer(at[plugin.name], plugin, profile.weights[plugin.name], normalizes(plugin))
            for plugin in profile.score
            if plugin.name in at
        )
        self.max_total = MAX_NODE_SCORE * sum(scorer.weight for scorer in self.scorers)
        """No total is higher; what totals and tie-breaks need not more than 32 bits for is kept in so many."""
        self.totals_dtype: IntType = np.int32 if self.max_total < MAX_NARROW else np.int64
        self.only_pre_scoring = tuple(
            at[plugin.name] for plugin in profile.pre_score if plugin.name in at and plugin.name not in scoring
        )
        self.fresh_filters = tuple(
            FreshFilter(plugin, frozenset(later.name for later in profile.filter[place:] if later.name in at))
            for place, plugin in enumerate(profile.filter)
            if plugin.name not in at
        )
        self.fresh_pre_scores: tuple[PreScorePlugin, ...] = tuple(p for p in profile.pre_score if p.name not in at)
        self.fresh_scores: tuple[ScorePlugin, ...] = tuple(p for p in profile.score if p.name not in at)
