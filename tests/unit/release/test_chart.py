"""The chart: its README and schema match its values, and its versions match the documentation."""

import json
import re
from typing import Any

import yaml
from release.chart import CHART, readme
from release.dist import ROOT, VERSION


def load(name: str) -> Any:
    return yaml.safe_load((CHART / name).read_text(encoding="utf-8"))


def test_the_readme_is_up_to_date() -> None:
    assert (CHART / "README.md").read_text(encoding="utf-8") == readme(), "run `make chart`"


def test_the_schema_describes_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = load("values.yaml")
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name in ("image", "networkPolicy"):
        assert values[name].keys() == schema["properties"][name]["properties"].keys()


def test_the_chart_supports_the_measured_versions() -> None:
    lowest, highest = re.findall(r"1\.(\d+)\.0-0", load("Chart.yaml")["kubeVersion"])
    page = (ROOT / "docs/reference/support.md").read_text(encoding="utf-8")
    measured = {int(minor) for minor in re.findall(r"^\| 1\.(\d+)\.\d+ \|", page, re.MULTILINE)}
    assert measured == {*range(int(lowest), int(highest))}


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = load("Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
