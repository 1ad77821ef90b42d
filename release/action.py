"""The step of action.yml: check configurations, simulate changed manifests, and write a summary for the pull request.

Only the standard library and the installed `moorage` command are used, because this file runs in projects of users.
`make action` runs it with a script that plays the runner.
"""

import glob
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
SHOWN = 50


class Report:
    """The summary page, the annotations in the changed files, and whether the check failed."""

    def __init__(self) -> None:
        self.lines = ["## Moorage", ""]
        self.has_failed = False

    def add(self, *lines: str) -> None:
        """Add lines to the summary."""
        self.lines += lines

    def fail(self, file: str, message: str) -> None:
        """Mark a file as wrong, where a reviewer sees it."""
        self.has_failed = True
        escaped = message.replace("%", "%25").replace("\r", "").replace("\n", "%0A")
        print(f"::error file={file}::{escaped}")


def main(environment: Mapping[str, str]) -> int:
    """Run the check; return the exit code."""
    report = Report()
    check_configurations(expand(environment.get("CONFIGURATIONS", "")), report)
    rejected = 0
    if environment.get("SNAPSHOT"):
        manifests = expand(environment.get("MANIFESTS", "")) or changed_manifests(
            environment.get("GITHUB_BASE_REF", "")
        )
        rejected = simulate(environment["SNAPSHOT"], manifests, environment.get("CONFIG", ""), report)
        if rejected and environment.get("FAIL_ON_UNSCHEDULABLE", "true") == "true":
            report.has_failed = True
    append(environment.get("GITHUB_STEP_SUMMARY"), "\n".join(report.lines) + "\n")
    append(environment.get("GITHUB_OUTPUT"), f"unschedulable={rejected}\n")
    return int(report.has_failed)


def expand(patterns: str) -> list[str]:
    """Return the files that match patterns, in order; a pattern without a match is an error."""
    files: dict[str, None] = {}
    for pattern in patterns.split():
        matches = sorted(glob.glob(pattern, recursive=True))
        if not matches:
            sys.exit(f"no file matches {pattern}: correct the input of the action")
        files.update(dict.fromkeys(matches))
    return [*files]


def changed_manifests(base: str) -> list[str]:
    """Return the manifests that a pull request adds or changes."""
    if not base:
        return []
    command = ["git", "diff", "--name-only", "--diff-filter=ACMR", f"origin/{base}...HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"cannot compare with {base}: check out the repository with fetch-depth: 0\n{result.stderr}")
    return [name for name in result.stdout.splitlines() if name.endswith(MANIFEST_SUFFIXES) and is_manifest(name)]


def is_manifest(name: str) -> bool:
    """Return whether a file contains Kubernetes objects; values and workflows do not."""
    text = Path(name).read_text(encoding="utf-8", errors="replace")
    return "apiVersion" in text and "kind" in text and "{{" not in text


def check_configurations(files: list[str], report: Report) -> None:
    """Validate scheduler configurations."""
    if files:
        report.add("### Scheduler configurations", "", "| file | result |", "|---|---|")
    for file in files:
        result = moorage("config", "check", file)
        message = (result.stderr or result.stdout).strip()
        if result.returncode:
            report.fail(file, message)
        shown = "valid" if not result.returncode else message.replace("\n", "<br>").replace("|", "\\|")
        report.add(f"| `{file}` | {shown} |")
    if files:
        report.add("")


def simulate(snapshot: str, manifests: list[str], config: str, report: Report) -> int:
    """Compare the cluster with and without the manifests; return how many pods the change leaves unschedulable."""
    report.add("### Simulation", "")
    if not manifests:
        report.add("No manifest changes.", "")
        return 0
    source = ["-f", snapshot] if snapshot.endswith((".yaml", ".yml")) else ["--snapshot", snapshot]
    options = [*source, "-o", "json", "--quiet", *(["--config", config] if config else [])]
    added = [part for file in manifests for part in ("-f", file)]
    outcomes = []
    for arguments in (options, [*options, *added]):
        result = moorage("simulate", *arguments)
        if result.returncode:
            report.fail(manifests[0], result.stderr.strip())
            report.add(f"The simulation failed: {result.stderr.strip()}", "")
            return 0
        outcomes.append(json.loads(result.stdout))
    before, after = (last_decisions(outcome) for outcome in outcomes)
    changed = {pod: decision for pod, decision in after.items() if result_of(before.get(pod)) != result_of(decision)}
    rejected = {pod: decision for pod, decision in changed.items() if decision["result"] != "scheduled"}
    placed = len(changed) - len(rejected)
    report.add(f"{len(manifests)} manifests: **{placed} pods fit, {len(rejected)} do not.**", "")
    if changed:
        report.add("| pod | result |", "|---|---|")
        ordered = sorted(changed.items(), key=lambda item: (item[1]["result"] == "scheduled", item[0]))
        report.add(*(f"| `{pod}` | {describe(decision)} |" for pod, decision in ordered[:SHOWN]))
        if len(changed) > SHOWN:
            report.add(f"| … | {len(changed) - SHOWN} more |")
        report.add("")
    report.add("| resource | requested before | after |", "|---|---|---|")
    usages = [{part["resource"]: part for part in outcome["utilisation"]} for outcome in outcomes]
    for resource, usage in usages[1].items():
        report.add(f"| {resource} | {share(usages[0].get(resource))} | {share(usage)} |")
    report.add("")
    return len(rejected)


def last_decisions(outcome: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the last decision about each pod."""
    return {decision["pod"]: decision for decision in outcome["decisions"]}


def result_of(decision: dict[str, Any] | None) -> str:
    """Return the result of a decision, or nothing for a pod that does not exist."""
    return decision["result"] if decision else ""


def describe(decision: dict[str, Any]) -> str:
    """Return the node of a pod, or why it has none."""
    if decision["result"] == "scheduled":
        return f"fits on `{decision['node']}`"
    message = str(decision.get("message", decision["result"])).replace("|", "\\|")
    return f"**{decision['result']}**: {message}"


def share(usage: dict[str, Any] | None) -> str:
    """Return the requested share of a resource in percent."""
    if not usage or not usage["allocatable"]:
        return "–"
    return f"{100 * usage['requested'] / usage['allocatable']:.0f}%"


def moorage(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of Moorage."""
    return subprocess.run(["moorage", *arguments], capture_output=True, text=True, check=False)


def append(file: str | None, text: str) -> None:
    """Append to a file of the runner; without a runner, print."""
    if not file:
        print(text)
        return
    with Path(file).open("a", encoding="utf-8") as output:
        output.write(text)


if __name__ == "__main__":
    sys.exit(main(os.environ))
