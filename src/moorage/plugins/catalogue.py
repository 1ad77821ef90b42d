"""Every plugin that comes with Moorage, in the order of the default profile."""

from typing import Final

from moorage.framework.plugin import Plugin

IN_TREE: Final[tuple[type[Plugin], ...]] = ()
