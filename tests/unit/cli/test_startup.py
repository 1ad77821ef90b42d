"""Imports of `moorage scheduler`: a restarted scheduler must be ready soon."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "the other commands": ("typer", "click"),
    "pictures for terminals": ("rich", "pygments", "colorama"),
    "other HTTP clients and servers": ("aiohttp", "httpx", "requests"),
    "what only a scrape needs": ("prometheus_client",),
    "what only files need": ("yaml",),
    "what only plugins of other packages need": ("importlib.metadata",),
    "what only certificates need": ("cryptography",),
    "what only a device selector needs": ("cel_expr_python", "google.protobuf"),
    "what only tests need": ("hypothesis", "pytest", "numpy.testing"),
    "what only annotations need": ("numpy.typing", "typing_extensions"),
    "what only servers need": (
        "email",
        "http",
        "moorage.kube.http.server",
        "moorage.scheduler.daemon.serving.server",
    ),
    "what is rarely needed of the standard library": ("fractions", "hashlib", "shutil", "tempfile"),
    "what only groups need": ("moorage.scheduler.engine.groups.group_cycle",),
    "the rest of Moorage": (
        "moorage.cluster.apiserver",
        "moorage.cluster",
        "moorage.cluster.controllers",
        "moorage.cluster.simulation",
        "moorage.testing",
    ),
}
START = """
import os, sys
from moorage.cli.main import run

def fork():
    raise SystemExit

# As a user starts it, up to where it becomes two processes.
os.fork = fork
run(["scheduler", "--secure-port=0"])
"""
IMPORTED = 'print("\\n".join(sys.modules))'
AS_CHILD = """
from moorage.cli.startup import import_numpy
import_numpy()
import moorage.scheduler.daemon.daemon
from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.options import complete_options
complete_options(parse(["--secure-port=0"]))
"""


def test_scheduler_does_not_import_optional_modules() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START + AS_CHILD + IMPORTED], capture_output=True, text=True, check=True
    )
    imported = set(ran.stdout.split())
    unwanted = {name: why for why, names in HEAVY.items() for name in names if name in imported}
    assert not unwanted, f"imported at the start, but needed later if at all: {unwanted}"
    assert "moorage.scheduler.daemon.daemon" in imported


def test_supervisor_imports_little() -> None:
    ran = subprocess.run([sys.executable, "-c", START + IMPORTED], capture_output=True, text=True, check=True)
    unwanted = {
        "numpy",
        "cryptography",
        "uvloop",
        "rich",
        "yaml",
        "moorage.scheduler.daemon.serving.server",
        "moorage.scheduler.engine.scheduler",
        "moorage.scheduler.plugins.included_plugins",
    }
    imported = set(ran.stdout.split())
    assert unwanted & imported == set()
    assert "moorage.scheduler.daemon.supervisor.supervisor" in imported


COMMANDS = """
import sys
import moorage.common.forked_process
from moorage.cli.commands import make_app
make_app()
"""


def test_no_command_imports_modules_of_another() -> None:
    """Modules that call `start_lightly` must not import heavy modules before the call."""
    ran = subprocess.run([sys.executable, "-c", COMMANDS + IMPORTED], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert {
        "numpy",
        "structlog",
        "msgspec",
        "yaml",
        "moorage.scheduler.framework",
        "moorage.kube.api.pod",
    } & imported == set()


ONE_COMMAND = """
import sys
from moorage.cli.main import run
assert run(["explain", "--help"]) == 0
"""


def test_a_command_line_imports_only_the_module_of_its_command() -> None:
    ran = subprocess.run([sys.executable, "-c", ONE_COMMAND + IMPORTED], capture_output=True, text=True, check=True)
    imported = {name for name in ran.stdout.split() if name.startswith("moorage.cli.")}
    assert imported - {"moorage.cli.main", "moorage.cli.scheduler", "moorage.cli.commands"} == {
        "moorage.cli.startup",
        "moorage.cli.explain",
        "moorage.cli.options",
    }


CHECK = """
import sys
from moorage.cli.main import run
assert run(["config", "check", sys.argv[1]]) == 0
"""


def test_config_check_imports_neither_pydantic_nor_rich(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    ran = subprocess.run(
        [sys.executable, "-c", CHECK + IMPORTED, str(file)], capture_output=True, text=True, check=True
    )
    assert {"pydantic", "rich", "pygments"} & set(ran.stdout.split()) == set()


def test_cluster_starts_without_modules_for_explanations() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, moorage.cli.up.running;" + IMPORTED],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(ran.stdout.split())
    assert "moorage.insight.page.live_cluster" in imported
    assert {
        "moorage.insight.explain.pods",
        "moorage.insight.whatif",
        "moorage.insight.whatif.session",
        "moorage.cluster.simulation.one_pass",
    } & imported == set()


THREADS = """
import os
from moorage.cli.startup import start_lightly
before = dict(os.environ)
start_lightly()
assert os.environ == before, "programs that we start would notice"
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads of libraries are counted as Linux tells them")
def test_start_creates_no_idle_threads() -> None:
    ran = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"


EXPLAIN = """
import sys
from moorage.cli.main import run
assert run(["explain", "web", "-f", sys.argv[1]]) == 0
"""
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: app, resources: {requests: {cpu: "8"}}}]}
"""


def test_explain_from_files_imports_neither_controllers_nor_the_reader_of_clusters(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    ran = subprocess.run(
        [sys.executable, "-c", EXPLAIN + IMPORTED, str(file)], capture_output=True, text=True, check=True
    )
    unwanted = {
        "moorage.cluster.apiserver.writing.writer",
        "moorage.cluster.controllers.job",
        "moorage.cluster.controllers.persistent_volumes",
        "moorage.insight.snapshots.cluster_reader",
    }
    assert unwanted & set(ran.stdout.split()) == set()
