"""What a project can begin with."""

from enum import StrEnum


class PluginKind(StrEnum):
    """What sort of plugin a project begins with."""

    FILTER = "filter"
    SCORE = "score"
    RESOURCE = "resource"
