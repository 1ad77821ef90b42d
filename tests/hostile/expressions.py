"""Random device selectors, in a process with little memory: none may take too long or too much memory."""

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from moorage.kube.api.devices import Device, DeviceAttribute
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    Program,
    device_facts,
)
from tests.support.expressions import Expressions

MAX_SECONDS = 10.0
"""Seconds for one expression on a busy machine; an exhausted budget takes two or three."""
MAX_GROWTH = 256 << 20
MAX_MEMORY = 2 << 30


def problems(seed: str, count: int) -> list[str]:
    """Evaluate expressions in a separate process; return the problems."""
    command = [sys.executable, "-m", "tests.hostile.expressions", seed, str(count)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    selected: list[str] = [json.loads(line) for line in result.stdout.splitlines()]
    if result.returncode:
        selected.append(f"expressions of seed {seed}: exit code {result.returncode}: {result.stderr[-2000:]}")
    return selected


def evaluate(seed: str, count: int) -> Iterator[str]:
    """Evaluate expressions one by one, intact and damaged, and print the problems of each."""
    chance = random.Random(seed)
    created = Expressions(chance)
    attributes = {f"a{number}": DeviceAttribute(string_value="ab" * 32) for number in range(32)}
    device = Device(name="d", attributes={"model": DeviceAttribute(string_value="a100"), **attributes})
    for _ in range(count):
        expression = created.boolean(chance.randrange(1, 9))
        if chance.random() < 0.3:
            expression = created.garbled(expression)
        before, began = peak(), time.perf_counter()
        try:
            Program(expression).matches(device_facts("gpu.example", device))
        except (CelCompileError, CelRuntimeError):
            pass
        except Exception as error:
            yield f"{type(error).__name__}: {error}: {expression}"
        if (took := time.perf_counter() - began) > MAX_SECONDS:
            yield f"took {took:.1f} s: {expression}"
        if (grown := peak() - before) > MAX_GROWTH:
            yield f"took {grown >> 20} MiB: {expression}"


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    seed, count = sys.argv[1:]
    for problem in evaluate(seed, int(count)):
        sys.stdout.write(json.dumps(problem) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
