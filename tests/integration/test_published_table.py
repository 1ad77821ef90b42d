"""The published comparison of GPU policies, small: on made-up pods and nodes the order of the policies is the same."""

from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from moorage.lab.experiment import load_experiment
from moorage.lab.generating import generate
from moorage.lab.openb import openb_like_cluster
from moorage.lab.report.arrivals import ArrivalCell, arrival_cells, arrivals_as_text
from moorage.lab.rows import TrialResult
from moorage.lab.trial import Trial, run_trial

EXAMPLE = Path(__file__).parents[2] / "examples/lab/published-table-made-up.yaml"
SHARE, PODS, SEEDS = 0.06, 500, (1, 2)


@lru_cache(1)
def results() -> tuple[TrialResult, ...]:
    """Run the example on a small part of its cluster."""
    loaded = load_experiment(EXAMPLE)
    cluster = openb_like_cluster(SHARE)
    options = loaded.experiment.options
    return tuple(
        run_trial(Trial(replace(generate("openb", seed, pods=PODS), name="made up"), cluster, policy, seed, options))
        for seed in SEEDS
        for policy in loaded.policies
    )


def cells() -> dict[str, ArrivalCell]:
    return arrival_cells(results())["made up", "openb"]


def test_the_order_of_the_policies_is_the_published_one() -> None:
    found = {name: cell.allocated[-1] for name, cell in cells().items()}
    packing = min(found["GpuPacking"], found["GpuClustering"]), max(found["GpuPacking"], found["GpuClustering"])
    assert found["Random"] < found["DotProd"] < packing[0], found
    assert packing[1] <= found["BestFit"] + 0.5, found
    assert max(found["BestFit"], packing[1]) < found["FGD"], found


def test_fragmentation_is_least_under_fgd_and_most_at_random() -> None:
    found = cells()
    for place in range(5):
        parts = {name: cell.fragmented[place] for name, cell in found.items()}
        assert min(parts, key=parts.__getitem__) == "FGD", parts
        assert max(parts, key=parts.__getitem__) == "Random", parts


def test_the_same_seed_gives_the_same_rows() -> None:
    first = results()[5]
    loaded = load_experiment(EXAMPLE)
    trace = replace(generate("openb", SEEDS[0], pods=PODS), name="made up")
    again = Trial(trace, openb_like_cluster(SHARE), loaded.policies[5], SEEDS[0], loaded.experiment.options)
    assert run_trial(again) == first


def test_the_table_is_printed_as_it_was_published() -> None:
    lines = list(arrivals_as_text(results()))
    assert lines[0] == "GPUs allocated in %, mean of 2 seeds, when 100% / 130% of the cluster's had been asked for"
    assert lines[1].split() == ["Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"]
    assert lines[2].startswith("made up ")
    assert len(lines[2].split("/")) == 7
