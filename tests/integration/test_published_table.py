"""The published comparison of GPU policies at a small scale: generated clusters give the same order of policies."""

import csv
from functools import lru_cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from moorage.cli.main import run as moorage
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MODEL
from moorage.lab.experiment import load_experiment
from moorage.lab.generating import generate
from moorage.lab.measuring import run_trial
from moorage.lab.openb import make_openb_cluster
from moorage.lab.report.page import ArrivalCell, arrival_cells, arrivals_as_text
from moorage.lab.trial import Trial, TrialResult

EXAMPLE = Path(__file__).parents[2] / "examples/lab/published-table-made-up.yaml"
SHARE, PODS, SEEDS = 0.06, 500, (1, 2)


@lru_cache(1)
def results() -> tuple[TrialResult, ...]:
    """Run the example on a small part of its cluster."""
    loaded = load_experiment(EXAMPLE)
    cluster = make_openb_cluster(SHARE)
    options = loaded.experiment.options
    return tuple(
        run_trial(Trial(replace(generate("openb", seed, pods=PODS), name="made up"), cluster, policy, seed, options))
        for seed in SEEDS
        for policy in loaded.policies
    )


def cells() -> dict[str, ArrivalCell]:
    return arrival_cells(results())["made up", "openb"]


def test_order_of_the_policies_is_the_published_one() -> None:
    selected = {name: cell.allocated[-1] for name, cell in cells().items()}
    packing = (
        min(selected["GpuPacking"], selected["GpuClustering"]),
        max(selected["GpuPacking"], selected["GpuClustering"]),
    )
    assert selected["Random"] < selected["DotProd"] < packing[0], selected
    assert packing[1] <= selected["BestFit"] + 0.5, selected
    assert max(selected["BestFit"], packing[1]) < selected["FGD"], selected


def test_fragmentation_is_lowest_with_fgd_and_highest_at_random() -> None:
    result = cells()
    for index in range(5):
        parts = {name: cell.fragmented[index] for name, cell in result.items()}
        assert min(parts, key=parts.__getitem__) == "FGD", parts
        assert max(parts, key=parts.__getitem__) == "Random", parts


def test_same_seed_gives_the_same_rows() -> None:
    first = results()[5]
    loaded = load_experiment(EXAMPLE)
    trace = replace(generate("openb", SEEDS[0], pods=PODS), name="made up")
    again = Trial(trace, make_openb_cluster(SHARE), loaded.policies[5], SEEDS[0], loaded.experiment.options)
    assert run_trial(again) == first


def test_table_has_the_published_format() -> None:
    lines = list(arrivals_as_text(results()))
    assert lines[0] == "GPUs allocated in %, mean of 2 seeds, when 100% / 130% of them are requested"
    assert lines[1].split() == ["Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"]
    assert lines[2].startswith("made up ")
    assert len(lines[2].split("/")) == 7


def test_public_files_can_be_imported_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_openb_files(tmp_path)
    nodes = ["--nodes", str(tmp_path / "nodes.csv"), "--cluster-out", str(tmp_path / "openb-nodes.csv")]
    for name, more in (("default", nodes), ("gpushare100", []), ("multigpu50", [])):
        files = ["--pods", str(tmp_path / f"{name}.csv"), "--out", str(tmp_path / f"openb-{name}.jsonl")]
        assert moorage(["lab", "import", "openb", *files, *more]) == 0
    experiment = EXAMPLE.with_name("published-table.yaml").read_text(encoding="utf-8")
    seeds = "seeds: [42, 43, 44, 45, 46, 47, 48, 49, 50, 51]"
    assert seeds in experiment
    (tmp_path / "table.yaml").write_text(experiment.replace(seeds, "seeds: [42]"), encoding="utf-8")
    capsys.readouterr()
    assert moorage(["lab", "run", str(tmp_path / "table.yaml"), "--workers", "1", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["default", "gpushare100", "multigpu50"]
    assert "18 of 18 trials" in lines[5]
    report = (tmp_path / "table-results/report.html").read_text(encoding="utf-8")
    assert "GPU fragmentation, in % of all GPUs" in report


def write_openb_files(directory: Path) -> None:
    """Write generated nodes and pods in the format of the public files: one list with all columns, two with five."""
    with (directory / "nodes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["sn", "cpu_milli", "memory_mib", "gpu", "model"])
        for node in make_openb_cluster(0.01).nodes:
            has = node.allocatable
            rows.writerow([node.name, has["cpu"], has["memory"] >> 20, has[GPU_COUNT], node.labels[GPU_MODEL]])
    short = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"]
    times = ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"]
    for name in ("default", "gpushare100", "multigpu50"):
        with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow([*short, *times] if name == "default" else short)
            for number, pod in enumerate(generate("openb", 7, pods=60).pods):
                line = [pod.name, pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_milli]
                rows.writerow([*line, "", "LS", "Running", number, number + 9, ""] if name == "default" else line)
