"""check_plugin finds what registering a plugin finds, and builds a class as nothing configured would."""

from typing import Any

import msgspec
import pytest

from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import check_plugin


class LabelledArgs(msgspec.Struct, frozen=True):
    label: str = "capacity"


class Labelled(FilterPlugin):
    """Has arguments with defaults."""

    Args = LabelledArgs

    def __init__(self, *, args: LabelledArgs) -> None:
        self.label = args.label

    def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        return None if self.label in node.labels else Status.unresolvable("node(s) had no label")


class Waiting(Labelled):
    """Waits where nothing may."""

    async def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:  # type: ignore[override]
        return None


def test_plugin_class_is_built_with_default_arguments() -> None:
    check_plugin(Labelled, examples=5)


def test_method_with_wrong_parameters_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"Waiting\.filter is `async def`"):
        check_plugin(Waiting, examples=5)
