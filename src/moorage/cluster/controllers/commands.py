"""What the command of a container would do, as far as that can be told without running it: sleep, and end."""

import re
from typing import Final

from moorage.cluster.controllers.kubelet import EXIT_CODE, RUN_FOR
from moorage.kube.api.struct import Data

_SHELLS: Final = frozenset(("sh", "bash", "ash"))
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)").fullmatch
_SPECIAL: Final = re.compile(r"[$`|<>(){}*?&\\]").search
_CODE: Final = re.compile(r"\d{1,3}").fullmatch


def annotations_of_command(template: Data) -> dict[str, str]:
    """Return the annotations that have a fake kubelet do what the command of a template's only container does.

    Nothing for a command that does more than to sleep, to say something and to end; what the template has itself stays.

    >>> annotations_of_command({"spec": {"containers": [{"command": ["sh", "-c", "sleep 5; exit 3"]}]}})
    {'moorage.io/run-for': '5s', 'moorage.io/exit-code': '3'}
    """
    containers = (template.get("spec") or {}).get("containers") or []
    if len(containers) != 1:
        return {}
    words = [*(containers[0].get("command") or ()), *(containers[0].get("args") or ())]
    name = words[0].rpartition("/")[2] if words else ""
    if name in _SHELLS and len(words) == 3 and words[1] == "-c":
        steps = [step.split() for step in re.split(r";|&&|\n", words[2]) if step.strip()]
    else:
        steps = [[name, *words[1:]]]
    own = (template.get("metadata") or {}).get("annotations") or {}
    return {key: text for key, text in _annotations(steps).items() if key not in own}


def _annotations(steps: list[list[str]]) -> dict[str, str]:
    slept, code = 0.0, ""
    for name, *rest in steps:
        duration = _DURATION(rest[0]) if name == "sleep" and len(rest) == 1 else None
        if duration is not None:
            slept += float(duration[1]) * _UNITS[duration[2]]
        elif name == "exit" and len(rest) == 1 and _CODE(rest[0]):
            code = rest[0]
            break
        elif name not in ("true", "false", "echo") or _SPECIAL(" ".join(rest)):
            return {}
        code = "1" if name == "false" else ""
    annotations = {RUN_FOR: f"{slept:.0f}s" if slept >= 1 else f"{slept * 1000:.0f}ms"} if slept else {}
    return {**annotations, EXIT_CODE: code} if code else annotations
