"""The environment: Gymnasium's checks, masks, seeds, vectors, and identical behavior in training and use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs Gymnasium: pip install 'moorage[learn]'")

import gymnasium
from gymnasium.utils.env_checker import check_env
from tests.support.policies_on_trial import snug

from moorage.common.errors import InputError
from moorage.lab.learn import ENVIRONMENT, SchedulingEnv, chosen_by

SMALL: dict[str, Any] = {"nodes": 5, "pods": 40}


@contextmanager
def made(**kwargs: Any) -> Iterator[SchedulingEnv]:
    environment = gymnasium.make(ENVIRONMENT, **{**SMALL, **kwargs}).unwrapped
    assert isinstance(environment, SchedulingEnv)
    yield environment
    environment.close()


def played(environment: SchedulingEnv, seed: int) -> tuple[list[float], dict[str, float]]:
    """Play an episode by a fixed policy; return all rewards, and the measures of the lab."""
    observation, info = environment.reset(seed=seed)
    rewards, is_over = [], False
    while not is_over:
        action = chosen_by(snug, observation, info["action_mask"])
        observation, reward, is_over, _, info = environment.step(action)
        rewards.append(reward)
    return rewards, info["measures"]


@pytest.mark.parametrize("action", ["node", "scores"])
def test_environment_passes_the_checks_of_gymnasium(action: str) -> None:
    with made(action=action) as environment:
        check_env(environment, skip_render_check=True)


def test_same_seed_gives_the_same_episode() -> None:
    with made() as environment, made() as another:
        assert played(environment, 7) == played(another, 7)
        assert played(environment, 7) != played(environment, 8)


def test_mask_matches_the_filters() -> None:
    with made() as environment:
        observation, info = environment.reset(seed=3)
        rejected = 0
        for _ in range(30):
            mask = environment.action_masks()
            assert mask.tolist() == info["action_mask"].astype(bool).tolist()
            assert mask.sum() >= 2, "pods with one feasible node need no decision"
            free = observation["nodes"][:, [2, 5]].min(axis=1)
            assert (free[mask] >= 0).all()
            assert (free[~mask] < 0).all(), "only resources make a node infeasible here"
            rejected += int((~mask).sum())
            observation, _, is_over, _, info = environment.step(int(np.flatnonzero(mask)[0]))
            assert not is_over
        assert rejected


def test_infeasible_node_costs_a_penalty_and_drops_the_pod() -> None:
    with made(penalty=-5.0, reward=lambda _facts: 0.0) as environment:
        _, info = environment.reset(seed=1)
        rejected_pod = environment._episode.question.pod
        _, reward, is_over, _, info = environment.step(7)
        assert reward == -5.0
        while not is_over:
            _, reward, is_over, _, info = environment.step(int(info["action_mask"].argmax()))
            assert reward == 0.0
        lives = environment._episode._play.lives
        assert [name for name, life in lives.items() if life.waited is None] == [rejected_pod.name]


def test_scores_never_select_an_infeasible_node() -> None:
    with made(action="scores", penalty=-1000.0) as environment:
        _, info = environment.reset(seed=3)
        is_over, total = False, 0.0
        while not is_over:
            worst = -info["action_mask"].astype(np.float32)
            _, reward, is_over, _, info = environment.step(worst)
            total += reward
        assert total > 0


def test_rewards_are_selected_by_name() -> None:
    crowded = {"nodes": 3, "pods": 80, "load": 3.0}
    with made(reward="placed", **crowded) as placed, made(reward="waiting", **crowded) as waiting:
        rewards, measures = played(placed, 5)
        losses, _ = played(waiting, 5)
    assert sum(rewards) > 0.5
    assert sum(losses) < 0.0
    assert measures["overcommitted"] == 0.0


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vectorized_environments_equal_a_single_one(mode: str) -> None:
    kwargs = {"vector_kwargs": {"context": "spawn"}} if mode == "async" else {}
    vector = gymnasium.make_vec(
        f"moorage.lab.learn:{ENVIRONMENT}", num_envs=2, vectorization_mode=mode, **SMALL, **kwargs
    )
    observations, infos = vector.reset(seed=[7, 8])
    after, rewards, *_ = vector.step(infos["action_mask"].argmax(axis=1))
    vector.close()
    with made() as alone:
        observation, info = alone.reset(seed=7)
        assert np.array_equal(observation["nodes"], observations["nodes"][0])
        observation, reward, *_ = alone.step(int(info["action_mask"].argmax()))
        assert np.array_equal(observation["nodes"], after["nodes"][0])
        assert rewards[0] == pytest.approx(reward)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one node": ({"nodes": 1}, "do not need a choice"),
    "unknown action": ({"action": "best"}, "write 'node' or 'scores'"),
    "unknown preset": ({"trials": "bach"}, "did you mean 'batch'"),
    "unknown reward": ({"reward": "place"}, "did you mean 'placed'"),
    "too few rows": ({"max_nodes": 3}, "there are 5 nodes, and observations have 3 rows"),
}


@pytest.mark.parametrize(("kwargs", "problem"), WRONG.values(), ids=WRONG)
def test_invalid_settings_are_rejected(kwargs: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        SchedulingEnv(**{**SMALL, **kwargs}).reset(seed=1)


def test_step_before_the_first_reset_is_rejected() -> None:
    environment = SchedulingEnv(**SMALL)
    with pytest.raises(InputError, match=r"call reset\(\) first"):
        environment.step(0)
