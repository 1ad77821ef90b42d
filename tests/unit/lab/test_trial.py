"""The input and the result of a trial."""

import pickle

import msgspec

from moorage.lab.generating import generate, preset_cluster
from moorage.lab.measuring import run_trial
from moorage.lab.trial import PolicyText, Trial


def test_pickled_trial_gives_the_same_bytes() -> None:
    trial = Trial(generate("mixed", 3, pods=60), preset_cluster("mixed"), PolicyText("default"), 3)
    first = msgspec.json.encode(run_trial(trial))
    assert msgspec.json.encode(run_trial(pickle.loads(pickle.dumps(trial)))) == first
