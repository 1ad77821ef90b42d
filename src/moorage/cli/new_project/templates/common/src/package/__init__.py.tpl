"""{{ plugin }}, a plugin for the Moorage scheduler."""

from {{ package }}.plugin import {{ plugin }}

__all__ = ["{{ plugin }}"]
