"""Print what a Kubernetes release changes, as a to-do list: `make next-minor VERSION=v1.38.0-beta.0`."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from release.dist import ROOT
from release.next_minor.modules import DownloadError, Release, Version, download, pinned_version
from release.next_minor.oracles import build_libraries, build_oracle
from release.next_minor.surface import compare_files, compare_surfaces, compare_workloads, read_surface
from release.next_minor.todo import combine, judge, write_list

T = TypeVar("T")
CERTAINTY: Final = {
    "alpha": "published in an alpha, may change",
    "beta": "published in a beta, may change",
    "rc": "published in a release candidate",
    "": "released",
}


class Report:
    """The lines of the report, and the time of each step."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds: dict[str, float] = {}

    def step(self, name: str, work: Callable[[], T]) -> T:
        """Run a step and note its time; progress is printed on stderr."""
        sys.stderr.write(f"{name} …\n")
        began = time.monotonic()
        try:
            return work()
        finally:
            self.seconds[name] = time.monotonic() - began

    def times(self) -> Iterator[str]:
        """Yield the table of times."""
        yield from ("", "## Time", "", "| step | seconds |", "|---|---|")
        yield from (f"| {name} | {seconds:.0f} |" for name, seconds in self.seconds.items())
        yield f"| all | {sum(self.seconds.values()):.0f} |"


def main() -> int:
    """Compare two releases and print the report."""
    parser = argparse.ArgumentParser(prog="make next-minor", description=__doc__)
    parser.add_argument("version", help="the release to look at, such as v1.38.0-beta.0")
    parser.add_argument(
        "--old", default="", help="the release to compare with (default: the one of conformance/go.mod)"
    )
    parser.add_argument("--n", type=int, default=300, help="clusters for both oracles; 0 builds no program")
    parser.add_argument("--seed", default="releases", help="seed of the clusters")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    given = parser.parse_args()
    report = Report()
    try:
        new_version = Version.parse(given.version)
        old_version = Version.parse(given.old, "OLD") if given.old else pinned_version()
        old, new = report.step("download", lambda: (download(old_version, name="OLD"), download(new_version)))
        write_surface(report, old, new)
        if given.n:
            write_libraries(report, old, new, given.seed)
            write_oracles(report, old, new, given.n, given.seed)
    except DownloadError as error:
        sys.stderr.write(f"make next-minor: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\nmake next-minor: interrupted; another run uses the finished downloads and builds\n")
        return 130
    text = "\n".join([*report.lines, *report.times(), ""])
    sys.stdout.write(text)
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    return 0


def write_surface(report: Report, old: Release, new: Release) -> None:
    """Write the to-do list."""
    modules = old.directories.keys() & new.directories.keys()
    surfaces = report.step("read sources", lambda: (read_surface(old, modules), read_surface(new, modules)))
    changes = report.step("compare", lambda: compare_surfaces(*surfaces))
    if "kubernetes" in modules:
        changes += [*compare_files(old, new), *compare_workloads(old, new)]
    stage = new.version.pre_release.removeprefix("-").partition(".")[0]
    items = report.step("compare with Moorage", lambda: combine(judge(changes, new.version)))
    report.lines += [f"# Kubernetes {old.version} → {new.version}", ""]
    report.lines += [f"Modules compared: {', '.join(sorted(modules))}."]
    for release in (old, new):
        for module, reason in release.refused.items():
            report.lines.append(f"Not published: `k8s.io/{module}` {release.version.of(module)} ({reason}).")
    if missing := [area for area, seen in _areas(modules).items() if not seen]:
        report.lines.append(f"Unknown until then: {', '.join(missing)}.")
    report.lines += ["", "## To do", "", *write_list(items, CERTAINTY[stage])]


def _areas(modules: Any) -> dict[str, bool]:
    needed = {
        "feature gates of the scheduler": "kubernetes",
        "texts, metrics and events of the scheduler": "kubernetes",
        "workloads of scheduler_perf": "kubernetes",
        "configuration API and framework interfaces": "kube-scheduler",
        "device allocation": "dynamic-resource-allocation",
        "API types": "api",
    }
    return {area: module in modules for area, module in needed.items()}


def write_libraries(report: Report, old: Release, new: Release, seed: str) -> None:
    """Evaluate quantities, expressions, selectors and names with the libraries of both releases, and with Moorage."""
    report.lines += ["", "## Libraries", ""]
    if (binaries := _built(report, "libraries", build_libraries, old, new)) is not None:
        _compare(report, "libraries", old, new, binaries, ["--seed", seed])


def write_oracles(report: Report, old: Release, new: Release, count: int, seed: str) -> None:
    """Build both oracles, run the same clusters and configurations through them, and write the differences."""
    report.lines += ["", "## Two oracles", ""]
    if (binaries := _built(report, "oracle", build_oracle, old, new)) is not None:
        _compare(report, "releases", old, new, binaries, ["--n", str(count), "--seed", seed, "--markdown"])
        report.lines += ["", "## Configurations", ""]
        _compare(report, "configurations", old, new, binaries, ["--n", str(count), "--seed", seed])


def _built(
    report: Report, name: str, build: Callable[[Release], Path], old: Release, new: Release
) -> tuple[Path, Path] | None:
    try:
        first, second = (
            report.step(f"build {name} of {release.version}", partial(build, release)) for release in (old, new)
        )
    except DownloadError as error:
        report.lines.append(f"Not run: {error}")
        return None
    return first, second


def _compare(
    report: Report, module: str, old: Release, new: Release, binaries: tuple[Path, Path], more: list[str]
) -> None:
    """Run a comparison of tests/conformance, and add its report."""
    command = [sys.executable, "-m", f"tests.conformance.{module}", *more]
    for side, release, binary in (("old", old, binaries[0]), ("new", new, binaries[1])):
        command += [f"--{side}", str(binary), f"--{side}-release", release.version.release]
    ran = report.step(
        f"compare {module}",
        lambda: subprocess.run(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True, check=False),
    )
    report.lines.append(ran.stdout.rstrip() or f"The comparison failed with exit code {ran.returncode}.")


if __name__ == "__main__":
    sys.exit(main())
