"""Files of the documentation site: JSON Schemas that real output matches, and the directories of versions."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from manual import schemas, site

ROOT = Path(__file__).parents[3]
TOUR = str(ROOT / "examples/clusters/tour.yaml")


def validator(name: str) -> Any:
    schema = json.loads(schemas.files()[f"{name}.schema.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def moorage(*arguments: str) -> Any:
    command = [sys.executable, "-c", "from moorage.cli.main import main; main()", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_simulations_match_their_schema() -> None:
    output = moorage("simulate", "-f", TOUR, "-o", "json", "--quiet")
    validator("decisions").validate(output)
    for decision in output["decisions"]:
        validator("decision").validate(decision)
    with pytest.raises(jsonschema.ValidationError):
        validator("decisions").validate({"decisions": [{"pod": 7}]})


@pytest.mark.parametrize("pod", ["too-big", "web"])
def test_explanations_match_their_schema(pod: str) -> None:
    output = moorage("explain", pod, "-f", TOUR, "-o", "json")
    validator("explain").validate(output)
    with pytest.raises(jsonschema.ValidationError):
        validator("explain").validate({**output, "changes": "none"})


def test_traces_match_their_schema() -> None:
    validator("trace").validate({"name": "a", "arrives": 0, "runs": 10, "cpuMilli": 500})
    with pytest.raises(jsonschema.ValidationError):
        validator("trace").validate({"name": "a", "arrive": 0})


def test_experiments_match_their_schema() -> None:
    experiments = [*ROOT.glob("examples/lab/*.yaml")]
    assert experiments
    import yaml

    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in experiments]
    for document in documents:
        if isinstance(document, dict) and "policies" in document:
            validator("experiment").validate(document)


def test_versions_are_listed_newest_first(tmp_path: Path) -> None:
    built = tmp_path / "built"
    (built / "search").mkdir(parents=True)
    (built / "llms.txt").write_text("pages")
    directory = tmp_path / "pages"
    directory.mkdir()
    for version in ("0.9.0", "0.10.0", "dev", "0.10.0"):
        site.add(directory, version, built)
    items = json.loads((directory / "versions.json").read_text())
    assert [entry["version"] for entry in items] == ["dev", "0.10.0", "0.9.0"]
    assert [entry["aliases"] for entry in items] == [[], ["latest"], []]
    assert "../0.10.0/index.html" in (directory / "latest/index.html").read_text()
