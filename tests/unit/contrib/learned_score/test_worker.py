"""The child process of a policy."""

import subprocess
import sys
from pathlib import Path
from time import monotonic


def test_a_worker_ends_with_its_parent() -> None:
    script = (
        "import os\n"
        "from tests.unit.contrib.learned_score.policy_builders import *\n"
        "with started('fullest') as (plugin, rig):\n"
        "    print(plugin._process._child._process.pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    root = Path(__file__).parents[4]
    completed = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    pid = int(completed.stdout)
    deadline = monotonic() + 300
    while Path(f"/proc/{pid}").exists() and "learned_score" in Path(f"/proc/{pid}/cmdline").read_text():
        assert monotonic() < deadline
