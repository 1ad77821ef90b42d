"""Where episodes come from: generated traces, the file of an experiment, or a function."""
from collections.abc import Callable, Sequence
from pathlib import Path
from moorage.assembly.policy import collect_plugins, load_policy
from moorage.lab.trial import Trial
from moorage.learn.episodes import EpisodeSource
TrialOf = Callable[[int], Trial]

def episode_source(trials, nodes, pods, config, plugins):
    policy = load_policy(collect_plugins(paths=plugins), config)
    return EpisodeSource(trials, policy, len(trials(0).cluster.nodes))
