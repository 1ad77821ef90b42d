"""Run the scheduler against older API servers and record what passed: `make skew`.

`conformance/control-plane` builds kube-apiserver and kube-controller-manager of each version from the Go module proxy.
The live tests below and a share of the soak run against them. The results replace the table in
docs/reference/support.md.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Final

from release.dist import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "support.md"
RESULTS: Final = ROOT / "docs" / "records" / "skew.json"
BUILT: Final = ("kube-apiserver", "kube-controller-manager", "etcd", "kubectl", "kube-scheduler", "helm")
#: The measured groups: tests on the server alone, tests that also need controllers, and faults.
TESTS: Final = {
    "scheduler, explain, snapshot": ["tests/live/test_skew.py", "tests/live/test_daemon.py"],
    "chart, service account, lease": ["tests/live/test_chart.py", "tests/live/test_deploy.py"],
    "devices, volumes": ["tests/live/test_devices.py", "tests/live/test_volumes.py"],
    "storm": ["tests/live/test_storm.py"],
    "faults": ["tests/live/test_faults.py"],
}
NEEDS_CONTROLLERS: Final = ("chart, service account, lease", "devices, volumes", "soak")
START, END = "<!-- measured: -->\n", "<!-- :measured -->\n"


def main() -> None:
    """Measure the versions and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    versions = sorted(path.name for path in (ROOT / "conformance/skew").iterdir())
    parser.add_argument("versions", nargs="*", default=[*versions, "1.37"], help="minor versions, such as 1.34")
    parser.add_argument("--minutes", type=float, default=2, help="length of the soak; 0 leaves it out")
    parser.add_argument("--only", action="append", choices=[*TESTS, "soak"], help="measure this only; repeatable")
    arguments = parser.parse_args()
    failed = False
    for version in arguments.versions:
        results = load_results()
        environment = os.environ | {"MOORAGE_KUBERNETES": version, "MOORAGE_LIVE": "1"}
        needed = {*(arguments.only or [*TESTS, "soak"])}
        programs = BUILT if needed & {*NEEDS_CONTROLLERS} else [name for name in BUILT if "controller" not in name]
        subprocess.run([ROOT / "conformance/control-plane", *programs], check=True, env=environment)
        row = results.setdefault(version, {})
        row["release"] = parse_release(version)
        for name, tests in TESTS.items():
            if name in needed:
                command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
                row[name] = measure(command, environment)
        if "soak" in needed and arguments.minutes:
            soak = [sys.executable, "-m", "tests.soak", "--minutes", str(arguments.minutes)]
            row["soak"] = {**measure(soak, environment), "minutes": arguments.minutes}
        failed = failed or any(part.get("failed") for part in row.values() if isinstance(part, dict))
        row["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        # One version after another: an interrupted run keeps what was measured.
        RESULTS.write_text(json.dumps(results | {version: row}, indent=2) + "\n", encoding="utf-8")
        write_table(load_results())
        print(json.dumps({version: row}, indent=2))
    sys.exit(failed)


def parse_release(version: str) -> str:
    """Return the release that is built for a minor version."""
    module = ROOT / "conformance" / "skew" / version / "go.mod"
    text = (module if module.exists() else ROOT / "conformance/go.mod").read_text(encoding="utf-8")
    match = re.search(r"k8s\.io/kubernetes v(\S+)", text)
    assert match is not None
    return match[1]


def measure(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Run tests or a soak; return how many passed and failed, and the names of the failures."""
    started = time.monotonic()
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    output = result.stdout + result.stderr
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", output)}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    is_soak = "tests.soak" in command
    if is_soak:
        counts = {"passed": int(result.returncode == 0), "failed": int(result.returncode != 0)}
        failures = output.splitlines()[-5:] if result.returncode else []
    print(f"{command[-1]}: {counts}", file=sys.stderr)
    if failures:
        print(output, file=sys.stderr)
    return {**counts, "failures": failures, "seconds": round(time.monotonic() - started)}


def load_results() -> dict[str, Any]:
    """Return the results of earlier runs."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return results


def write_table(results: dict[str, Any]) -> None:
    """Replace the table of Kubernetes versions in the page."""
    columns = [*TESTS, "soak"]
    lines = [f"| Kubernetes | {' | '.join(columns)} | measured |", "|---" * (len(columns) + 2) + "|"]
    for _, row in sorted(results.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
        cells = [describe(row.get(name)) for name in columns]
        lines.append(f"| {row['release']} | {' | '.join(cells)} | {row['date']} |")
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(START)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{START}" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def describe(part: dict[str, Any] | None) -> str:
    """Return a cell: how many tests passed, and how many did not."""
    if part is None:
        return "not run"
    bad = part.get("failed", 0) + part.get("error", 0)
    if "minutes" in part:
        return f"{part['minutes']:g} minutes, {'failed' if bad else 'passed'}"
    text = f"{part.get('passed', 0)} passed"
    return f"{text}, {bad} failed" if bad else text


if __name__ == "__main__":
    main()
