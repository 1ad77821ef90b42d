"""JSON Schemas of the files that Moorage reads and writes, generated from the types that read and write them.

`python -m manual.schemas DIRECTORY` writes one file per format; the documentation site publishes them below `schemas/`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.insight.explain.explanation import PossibleChange, ReasonGroup, ScoreDifference, WakingEvent
from moorage.lab.experiment import Experiment
from moorage.lab.trace import NodeOutage, TracePod
from moorage.scheduler.decisions.attempts import GroupDecision
from moorage.scheduler.decisions.decision import Decision

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def _generate(*kinds: Any) -> tuple[list[Schema], Schema]:
    """Return the schemas of types, and the definitions that they refer to."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return [*schemas], components


def experiment() -> Schema:
    """An experiment of `moorage lab run`."""
    (schema,), components = _generate(Experiment)
    return {**schema, "$defs": components}


def trace() -> Schema:
    """A line of a trace: a pod, or a node that fails for a while."""
    schemas, components = _generate(TracePod, NodeOutage)
    return {"anyOf": schemas, "$defs": components}


def decision() -> Schema:
    """A decision about a pod: an item of `decisions`, and a line of a decision log."""
    (schema,), components = _generate(Decision)
    return {**schema, "$defs": components}


def decisions() -> Schema:
    """The output of `moorage simulate -o json`."""
    (pods, groups), components = _generate(list[Decision], list[GroupDecision])
    properties = {"decisions": pods, "groups": groups, "timeline": {"type": "array"}, "utilisation": {"type": "array"}}
    return {"type": "object", "required": ["decisions"], "properties": properties, "$defs": components}


def explain() -> Schema:
    """The output of `moorage explain -o json`: the decision about a pod with reasons, or the state of a workload."""
    kinds = (tuple[ReasonGroup, ...], tuple[PossibleChange, ...], tuple[ScoreDifference, ...], tuple[WakingEvent, ...])
    (last, reasons, changes, because, wakes), components = _generate(Decision, *kinds)
    # A pod has the fields of its last decision; a bound one has the result `bound`.
    fields = components[last["$ref"].rpartition("/")[2]]["properties"]
    texts = ("stopped", "runnerUp")
    properties = {
        **fields,
        "result": {"type": "string"},
        "reasons": {"type": "array", "items": {"type": "object"}, "description": reasons.get("description", "")},
        "changes": changes,
        "because": because,
        "wakes": wakes,
        "group": {"type": "object"},
        **{name: {"type": "string"} for name in texts},
    }
    components["Pod"] = {
        "type": "object",
        "required": ["pod", "result", "reasons", "changes"],
        "properties": properties,
    }
    components["Workload"] = {
        "type": "object",
        "required": ["workload", "fits", "of"],
        "properties": {
            "workload": {"type": "string"},
            "fits": {"type": "integer"},
            "of": {"type": "integer"},
            "group": {"type": "object"},
            "next": {"$ref": "#/$defs/Pod"},
        },
    }
    return {"anyOf": [{"$ref": "#/$defs/Pod"}, {"$ref": "#/$defs/Workload"}], "$defs": components}


#: Each format with the page about it.
FORMATS: Final[dict[Callable[[], Schema], str]] = {
    experiment: "lab.md",
    trace: "lab.md",
    decisions: "decisions.md",
    decision: "decision-log.md",
    explain: "explain.md",
}


def files() -> dict[str, str]:
    """Return the text of each schema by file name."""
    texts = {}
    for form in FORMATS:
        schema = {"$schema": DIALECT, "title": f"Moorage {form.__name__}", "description": form.__doc__, **form()}
        texts[f"{form.__name__}.schema.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return texts


def page() -> str:
    """Return the page that lists the schemas."""
    rows = []
    for form, about in FORMATS.items():
        file = f"{form.__name__}.schema.json"
        rows.append(f"| [{file}](../schemas/{file}) | {form.__doc__} | [{about}]({about}) |")
    lines = [
        "# JSON Schemas",
        "",
        "The schemas are generated from the types in the code. Minor versions may add fields; ignore unknown ones.",
        "Editors use a schema with a first line such as `# yaml-language-server: $schema=experiment.schema.json`.",
        "",
        "| schema | content | page |",
        "|---|---|---|",
        *rows,
        "",
        "`python -m manual.schemas DIRECTORY` writes the files from a clone.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (directory / name).write_text(text, encoding="utf-8")
