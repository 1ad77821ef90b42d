"""Follow a pod from the watch to the binding, through the files in the documentation.

Counted is every file with a function that is handed the pod: the object, something that carries it, its key or its
bytes. ``kube/api/`` and plugins are not counted, nor is the other side (API server, controllers, kubelets).
"""

import asyncio
import re
import sys
from functools import partial
from inspect import iscoroutine, isfunction
from pathlib import Path
from types import CellType, FrameType
from typing import Any, Final

import pytest

import moorage
from moorage.kube.api.pod import Pod
from moorage.testing import Cluster

SOURCE: Final = Path(moorage.__file__).parent
PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "how-a-pod-is-scheduled.md"
NAME: Final = "traced"
NOT_COUNTED: Final = ("kube/api/", "scheduler/plugins/", "cluster/", "testing/")
CARRIED_AS: Final = ("pod", "before", "after", "queued", "steps")
"""The fields of our classes that contain one pod: Change, QueuedPodInfo, PreFiltered, Binding, Work."""

STEP: Final = re.compile(r"^### \d+\. \[`([^`]+)`\]\(([^)]+)\)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def carries(value: Any, depth: int = 3) -> bool:
    """Return whether a value is the pod or contains it."""
    if isinstance(value, Pod):
        return value.name == NAME
    if isinstance(value, str):
        return value == f"default/{NAME}"
    if isinstance(value, bytes):
        return f'"{NAME}"'.encode() in value
    return depth > 0 and any(carries(part, depth - 1) for part in list_parts(value))


def list_parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, partial):
        return [*value.args, *value.keywords.values()]
    if iscoroutine(value):
        return list(value.cr_frame.f_locals.values()) if value.cr_frame is not None else []
    if isfunction(value):
        empty = CellType()
        return [cell.cell_contents for cell in value.__closure__ or () if cell != empty]
    if type(value).__module__.startswith("moorage."):
        return [getattr(value, name, None) for name in CARRIED_AS]
    return []


class Trace:
    """Records the files that receive the pod, in order, from its watch line to its binding request."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.has_begun = self.is_over = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if self.is_over or event != "call" or not code.co_filename.startswith(f"{SOURCE}/"):
            return
        file = Path(code.co_filename).relative_to(SOURCE)
        if str(file).startswith(NOT_COUNTED):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        spec: dict[str, Any] = {name: frame.f_locals.get(name) for name in names}
        if not self.has_begun:
            is_watch = code.co_qualname == "ListWatch.chunk" and b'"ADDED"' in spec["data"]
            self.has_begun = is_watch and carries(spec["data"])
        if self.has_begun and any(map(carries, spec.values())):
            self.files[str(file)] = None
            is_request = code.co_qualname == "ApiClient.request"
            self.is_over = is_request and spec["path"].endswith(f"/pods/{NAME}/binding")


def trace_pod() -> Trace:
    trace = Trace()

    async def run() -> None:
        # In real time, because then the scheduler's client talks HTTP.
        async with Cluster(nodes=5, cross_check=False) as cluster:
            await cluster.apply(manifest("first"))
            await cluster.wait_for(lambda: len(cluster.running()) == 1)
            sys.setprofile(trace)
            try:
                await cluster.apply(manifest(NAME))
                await cluster.wait_for(lambda: len(cluster.running()) == 2)
            finally:
                sys.setprofile(None)

    asyncio.run(run())
    return trace


def manifest(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.mark.release("1.37")
def test_documentation_lists_the_files_of_a_pods_path_in_order() -> None:
    trace = trace_pod()
    assert trace.is_over, "the binding was not recorded"
    assert [name for name, _, _ in STEP.findall(PAGE.read_text())] == list(trace.files)


@pytest.mark.parametrize("page", [PAGE, PAGE.with_suffix(".zh.md")], ids=["English", "Chinese"])
def test_documentation_quotes_existing_lines(page: Path) -> None:
    steps = STEP.findall(page.read_text())
    assert steps
    for name, link, text in steps:
        assert (page.parent / link).resolve() == (SOURCE / name).resolve()
        quoted = [line.strip() for block in CODE.findall(text) for line in block.splitlines() if line.strip()]
        lines = {line.strip() for line in (SOURCE / name).read_text().splitlines()}
        assert quoted, f"{name}: no line is quoted"
        assert [line for line in quoted if line not in lines] == [], name
