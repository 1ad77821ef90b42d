"""Charts of a report as separate files."""

from pathlib import Path
from xml.etree import ElementTree

from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage


def test_charts_are_written_as_svg_with_fixed_colors_and_a_legend(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT.replace("name: pack", 'name: "pack & <save>"'))
    assert moorage(["lab", "run", str(path), "--workers", "1", "-q"]) == 0
    files = {file.name: file.read_text() for file in (tmp_path / "small-results" / "figures").glob("*.svg")}
    assert {"gpus-allocated.svg", "gpus-allocated-over-time.svg", "pareto-front.svg"} <= files.keys()
    for text in files.values():
        root = ElementTree.fromstring(text)
        _, top, _, height = map(float, root.attrib["viewBox"].split())
        assert float(root.attrib["height"]) == height
        positions = [float(each.attrib["y"]) for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert all(top < position <= top + height for position in positions), "no text is clipped"
        assert "var(" not in text
    assert {path.with_suffix(".svg").name for path in (tmp_path / "small-results/figures").glob("*.pdf")} == set(files)
    assert "pack &amp; &lt;save&gt;" in files["gpus-allocated-over-time.svg"]
    assert ">GPUs allocated over time</text>" in files["gpus-allocated-over-time.svg"], "figures name their quantity"


def test_each_scene_has_its_own_figures(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT.replace("traces: [", "traces: [{name: more, preset: mixed, pods: 20}, "))
    assert moorage(["lab", "run", str(path), "--workers", "1", "-q"]) == 0
    names = {file.name for file in (tmp_path / "small-results" / "figures").iterdir()}
    assert {"more-on-shared--pareto-front.svg", "mixed-on-shared--pareto-front.svg"} <= names
