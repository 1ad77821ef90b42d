"""One trial: a cluster, a trace, a configuration and a seed; the same input always gives the same rows."""

from typing import TYPE_CHECKING

from msgspec import Struct

from moorage.common.errors import MoorageError
from moorage.lab.cluster import LabCluster
from moorage.lab.conditions import Conditions
from moorage.lab.rows import TrialId, TrialResult, TrialRow
from moorage.lab.trace import Trace

if TYPE_CHECKING:
    from moorage.scheduler.wiring.policy import Policy


class PolicyText(Struct, frozen=True):
    """Scheduling settings in their source form: a configuration, its out-of-tree plugins, and feature gates."""

    name: str
    config: str = ""
    """A KubeSchedulerConfiguration in YAML; the defaults, if it is empty."""
    plugins: tuple[str, ...] = ()
    """Plugins in addition to the installed ones, as ``module:Class``."""
    gates: dict[str, bool] = {}


class Trial(Struct, frozen=True):
    """The input of one trial; it can be pickled and sent to another process."""

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
    """Run one trial in virtual time, in this process; if a policy fails, its row has the error."""
    from moorage.common.clock import VirtualClock
    from moorage.common.virtual_time import run_virtual
    from moorage.lab.measuring import Measures
    from moorage.lab.playing import Play

    measures, clock = Measures(trial), VirtualClock()

    async def play() -> None:
        measures.play = Play(trial, load_trial_policy(trial), clock, measures)
        await measures.play.run()

    try:
        run_virtual(play(), clock)
    except MoorageError as error:
        of = trial.id
        return TrialResult(TrialRow(of.trace, of.cluster, of.configuration, of.seed, error=str(error)))
    return measures.result()


def load_trial_policy(trial: Trial) -> "Policy":
    """Return how to schedule in a trial; ConfigError if its configuration cannot be used."""
    from moorage.kube.features import FeatureGates
    from moorage.lab.fragmentation import told_typical, typical_of
    from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

    source = trial.policy
    registry = collect_plugins(paths=source.plugins)
    policy = load_policy(registry, source.config, features=FeatureGates(source.gates))
    if any(pod.gpus for pod in trial.trace.pods):
        config = told_typical(policy.config, typical_of(trial.trace.pods))
        policy = Policy(config, policy.registry, policy.features)
    return policy
