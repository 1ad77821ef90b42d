"""One trial: a cluster, a trace, a configuration and a seed; the same input always gives the same rows."""

from msgspec import Struct

from moorage.lab.cluster import LabCluster
from moorage.lab.conditions import Conditions
from moorage.lab.rows import TrialId, TrialResult
from moorage.lab.trace import Trace


class PolicyText(Struct, frozen=True):
    """How to schedule, as it was written: a configuration, the plugins that it may name, and feature gates."""

    name: str
    config: str = ""
    """A KubeSchedulerConfiguration in YAML; the defaults, if it is empty."""
    plugins: tuple[str, ...] = ()
    """Plugins beside those that are installed, as ``module:Class``."""
    gates: dict[str, bool] = {}


class Trial(Struct, frozen=True):
    """What one trial needs; it can be pickled and sent to wherever it is to run."""

    trace: Trace
    cluster: LabCluster
    policy: PolicyText
    seed: int
    conditions: Conditions = Conditions()

    @property
    def id(self) -> TrialId:
        """Which trial this is."""
        return TrialId(self.trace.name, self.cluster.name, self.policy.name, self.seed)


def run_trial(trial: Trial) -> TrialResult:
    """Run one trial in virtual time, in this process. MoorageError if the configuration or a plugin fails."""
    from moorage.assembly.policy import collect_plugins, load_policy
    from moorage.clock import VirtualClock
    from moorage.features import FeatureGates
    from moorage.lab.measuring import Measures
    from moorage.lab.playing import Play
    from moorage.simulator.loop import run_virtual

    written = trial.policy
    registry = collect_plugins(paths=written.plugins)
    policy = load_policy(registry, written.config, features=FeatureGates(written.gates))
    measures, clock = Measures(trial), VirtualClock()

    async def play() -> None:
        measures.play = Play(trial, policy, clock, measures)
        await measures.play.run()

    run_virtual(play(), clock)
    return measures.result()
