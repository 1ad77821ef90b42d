"""Episodes: the agent's choices replace the score plugins, and rewards are computed from the facts of a step."""

from contextlib import closing

import pytest

pytest.importorskip("gymnasium", reason="needs Gymnasium: pip install 'moorage[learn]'")

from msgspec.structs import replace
from tests.support.lab import pool_cluster, trial_with
from tests.support.policies_on_trial import snug

from moorage.lab.learn import ObservedColumns, chosen_by
from moorage.lab.learn.episodes import Episode, StepFacts, find_reward, generate_trials, scale_load
from moorage.lab.measuring import run_trial
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trial import PolicyText
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

LEARNED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      preScore: {disabled: [{name: "*"}], enabled: [{name: LearnedScore}]}
      score: {disabled: [{name: "*"}], enabled: [{name: LearnedScore}]}
    pluginConfig:
      - name: LearnedScore
        args: {policy: "tests.support.policies_on_trial:snug", timeLimit: 0s}
"""


def test_training_and_scheduling_choose_the_same_nodes() -> None:
    """The same policy puts every pod on the same node, as an agent and as a plugin."""
    trial = replace(generate_trials("batch", 3, 120, 1.2)(11), policy=PolicyText("learned", LEARNED))
    columns = ObservedColumns(("cpu", "memory"))
    with closing(Episode(trial, load_policy(collect_plugins()))) as episode:
        episode.advance()
        while (question := episode.question) is not None:
            observed = columns.observe(question.pod, episode.nodes)
            episode.answer(chosen_by(snug, {"nodes": observed.nodes, "pod": observed.pod}, question.feasible))
            episode.advance()
        by_agent = {name: life.node for name, life in episode._play.lives.items()}
    assert by_agent == {row.pod: row.node for row in run_trial(trial).pods}
    assert len(by_agent) == 120
    assert len(set(by_agent.values())) == 3


def test_facts_of_a_step_equal_those_of_the_trace() -> None:
    pods = (
        TracePod("first", 0.0, 100.0, cpu_milli=2000),
        TracePod("second", 10.0, 100.0, cpu_milli=4000),
        TracePod("third", 20.0, 500.0, cpu_milli=4000),
        TracePod("blocked", 30.0, 500.0, cpu_milli=4000),
        TracePod("last", 150.0, 10.0, cpu_milli=1000),
    )
    with closing(Episode(trial_with(*pods, cluster=pool_cluster(3, 4)), load_policy(collect_plugins()))) as episode:
        episode.advance()
        assert episode.answer(0)
        episode.advance()
        assert episode.facts(("cpu", "memory")) == StepFacts(
            placed=pytest.approx(2 / 12 / 2), waiting=0.0, seconds=10.0
        )
        assert episode.answer(1)
        episode.advance()
        facts = episode.facts(("cpu",))
    # No later pod has a choice. The blocked one waits from 30 until the first ends at 100.
    assert facts.placed == pytest.approx((4 + 4 + 4 + 1) / 12)
    assert facts.seconds == 140.0
    assert 70.0 <= facts.waiting < 75.0, "until the end of the backoff"


def test_rewards_are_computed_from_facts() -> None:
    facts = StepFacts(placed=0.25, waiting=7200.0, seconds=10.0)
    assert find_reward("placed")(facts) == 0.25
    assert find_reward("waiting")(facts) == -2.0
    assert find_reward(lambda facts: facts.seconds)(facts) == 10.0


def test_scaled_trace_requests_the_load() -> None:
    trace = Trace("t", (TracePod("a", 0.0, 100.0, cpu_milli=1000), TracePod("b", 50.0, 300.0, cpu_milli=2000)))
    scaled = scale_load(trace, milli=4000, load=0.5)
    requested = sum(pod.cpu_milli * (pod.runs or 0.0) for pod in scaled.pods)
    assert requested / scaled.pods[-1].arrives == pytest.approx(0.5 * 4000)
    endless = Trace("t", (TracePod("a", 0.0, None, cpu_milli=1000),))
    assert scale_load(endless, milli=4000, load=0.5) == endless


def test_infeasible_action_drops_the_pod() -> None:
    pods = (TracePod("dropped", 0.0, 10.0, cpu_milli=100), TracePod("placed", 1.0, 10.0, cpu_milli=100))
    with closing(Episode(trial_with(*pods), load_policy(collect_plugins()))) as episode:
        episode.advance()
        assert not episode.answer(9)
        episode.advance()
        assert episode.question is not None
        assert episode.question.pod.name == "placed"
        assert episode.answer(1)
        episode.advance()
        assert episode.question is None
        assert episode.measures()["allocation.cpu"] == 0.0
        assert [name for name, life in episode._play.lives.items() if life.waited is None] == ["dropped"]
