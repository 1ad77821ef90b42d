"""The versions of Moorage and of the kube-scheduler release that it matches."""

from typing import Any, Final

VERSION: Final = "0.1.0"
KUBERNETES: Final = "v1.37.1"
"""The release that is compared with kube-scheduler: every other constant with a Kubernetes version follows it."""
RELEASE: Final = "1.37"
"""The release that is emulated by default."""
RELEASES: Final = ("1.34", "1.35", "1.36", "1.37", "1.38")
"""The releases that can be emulated. The newest is being prepared while it is newer than ``RELEASE``."""
OLDEST: Final = RELEASES[0]
NEWEST: Final = RELEASES[-1]
USER_AGENT: Final = f"kube-scheduler/{KUBERNETES} moorage"


def version_line() -> str:
    """Return the line that ``--version`` prints."""
    return f"moorage {VERSION} (kube-scheduler {KUBERNETES})"


def version_info() -> dict[str, Any]:
    """Return the content of ``/version``, as Kubernetes components serve it; clients parse ``gitVersion``."""
    import platform
    import sys

    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+moorage-{VERSION}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform}/{platform.machine()}",
    }
