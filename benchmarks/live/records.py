"""The raw data: one JSON file with the machine, the versions and everything that was measured."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from moorage import __version__

SCHEMA: Final = 1
_SAME: Final = ("workload", "nodes", "pods", "scheduler")
"""The key of a row: a repeated measurement replaces the earlier row."""


def read(path: Path) -> dict[str, Any]:
    """Return the recorded rows; empty if the file does not exist."""
    if not path.exists():
        return {"schema": SCHEMA, **about()}
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def add(path: Path, section: str, rows: Sequence[Mapping[str, Any]], flags: Sequence[str] = ()) -> None:
    """Add rows, replace earlier ones of the same kind, and stamp each with its date and subject."""
    content, now = read(path), about()
    new = {_key(row) for row in rows}
    retained = [row for row in content.get(section, []) if _key(row) not in new]
    stamp = {"date": now["date"], "moorage": " ".join((now["versions"]["moorage"], *flags))}
    content |= now | {section: [*retained, *({**row, **stamp} for row in rows)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=None, separators=(",", ":")).replace('{"bound"', '\n{"bound"') + "\n")


def about() -> dict[str, Any]:
    """Describe the machine and the versions."""
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": _machine(), "versions": _versions()}


def _machine() -> dict[str, Any]:
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {
        "cpu": cpus[0].partition(":")[2].strip() if cpus else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def _versions() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    directory = subprocess.run([root / "conformance" / "control-plane", "--print"], check=True, capture_output=True)
    kubernetes, _, etcd = Path(directory.stdout.decode().strip()).name.partition("-etcd-")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, check=False)
    return {
        "moorage": f"{__version__} ({commit.stdout.decode().strip() or 'no commit'})",
        "kubernetes": kubernetes,
        "etcd": etcd.partition("-")[0],
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "msgspec", "uvloop")},
    }


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _SAME)
