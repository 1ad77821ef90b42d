"""The workloads of scheduler_perf, read from the source of the Kubernetes release that the conformance module names."""

import math
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.control_plane import ROOT

SUITE: Final = Path("test", "integration", "scheduler_perf")
FILE: Final = "performance-config.yaml"
COUNTS: Final = ("pods", "nodes", "claims", "namespaces")
"""Parameters whose names end with one of these are numbers of objects, and can be scaled."""


@dataclass(frozen=True, slots=True)
class PerfWorkload:
    """One workload: a test case with parameters. ``threshold`` is in pods per second; 0 means none."""

    topic: str
    case: str
    name: str
    threshold: float
    params: Mapping[str, Any]
    gates: Mapping[str, bool]
    operations: Sequence[Mapping[str, Any]]
    directory: Path
    pod_template: str = ""
    config: str = ""

    @property
    def title(self) -> str:
        """The name in tables, as upstream prints it."""
        return f"{self.case}/{self.name}"

    @property
    def gate_flags(self) -> tuple[str, ...]:
        """The feature gates as a flag of all programs."""
        text = ",".join(f"{name}={str(value).lower()}" for name, value in self.gates.items())
        return (f"--feature-gates={text}",) if text else ()

    @property
    def has_claims(self) -> bool:
        """Whether a controller must create resource claims from templates."""
        return any("resourceclaimtemplate" in str(each.get("templatePath", "")) for each in self.operations)

    def value(self, text: Any) -> Any:
        """Resolve ``$parameter`` or ``$parameter|default``; other values are returned unchanged."""
        if not isinstance(text, str) or not text.startswith("$"):
            return text
        name, separator, default = text[1:].partition("|")
        if name not in self.params and not separator:
            raise KeyError(f"{self.title}: parameter {name!r} is missing")
        return self.params[name] if name in self.params else yaml.safe_load(default)

    def count(self, operation: Mapping[str, Any], default: int = 0) -> int:
        """Return how many objects an operation is about."""
        return int(self.value(operation.get("countParam", operation.get("count", default))))

    def scaled(self, factor: float) -> "PerfWorkload":
        """Return the same workload with fewer objects."""
        params = {
            name: math.ceil(value * factor) if isinstance(value, int) and name.lower().endswith(COUNTS) else value
            for name, value in self.params.items()
        }
        return replace(self, params=params)


def suite_directory() -> Path:
    """Return the directory of scheduler_perf in the module cache; download the module if it is missing."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"]
    subprocess.run(["go", "mod", "download", "k8s.io/kubernetes"], check=True, cwd=ROOT / "conformance")
    listed = subprocess.run(command, check=True, cwd=ROOT / "conformance", capture_output=True, text=True)
    return Path(listed.stdout.strip()) / SUITE


def load(directory: Path) -> Iterator[PerfWorkload]:
    """Read all workloads below a directory."""
    for path in sorted(directory.rglob(FILE)):
        topic = str(path.parent.relative_to(directory))
        for case in yaml.safe_load(path.read_text()):
            for entry in case["workloads"]:
                yield PerfWorkload(
                    topic=topic,
                    case=case["name"],
                    name=entry["name"],
                    threshold=_threshold(entry.get("threshold", 0.0), topic),
                    params=entry.get("params") or {},
                    gates={**case.get("featureGates", {}), **entry.get("featureGates", {})},
                    operations=case["workloadTemplate"],
                    directory=path.parent,
                    pod_template=case.get("defaultPodTemplatePath", ""),
                    config=case.get("schedulerConfigPath", ""),
                )


def _threshold(value: float | Mapping[str, float], topic: str) -> float:
    """Return the threshold of a workload; a workload that several suites share has one for each."""
    return value.get(topic, 0.0) if isinstance(value, Mapping) else value
