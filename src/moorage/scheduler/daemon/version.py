"""Which Moorage this is, and which kube-scheduler it stands in for."""

import platform
import sys
from typing import Any, Final

from moorage import __version__

KUBERNETES: Final = "v1.37.1"
USER_AGENT: Final = f"kube-scheduler/{KUBERNETES} moorage"


def version_line() -> str:
    """Say it in one line, as --version does."""
    return f"moorage {__version__} (kube-scheduler {KUBERNETES})"


def version_info() -> dict[str, Any]:
    """Say it as Kubernetes components do on /version; clients parse ``gitVersion``."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+moorage-{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform}/{platform.machine()}",
    }
